"""Golden cases of M5 no_sync."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Model

LOOP = """
for number, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / 4
    loss.backward()
    if number % 4 == 3:
        optimizer.step()
"""
SYNC = """
for number, (x, y) in enumerate(loader):
    with model.no_sync() if number % 4 < 3 else nullcontext():
        criterion(model(x), y).backward()
"""
two = {
    "process": ProcessFacts(world=2, backend="gloo"),
    "models": (Model(name="Net", trainable=1, wrapped="DistributedDataParallel"),),
}
four = replace(healthy().steps, backwards=4.0)
POSITIVE = [healthy(**two, steps=four, sources={SCRIPT: LOOP})]
NEGATIVE = [
    healthy(**two, steps=four, sources={SCRIPT: SYNC}),
    healthy(**two, sources={SCRIPT: LOOP}),
    healthy(**two, steps=four, sources={SCRIPT: LOOP}, framework="transformers"),
]
each = replace(two["process"], exchanging=1.0)
once = replace(two["process"], exchanging=0.25)
KNOWN = [
    (POSITIVE[0], "read"),
    (replace(POSITIVE[0], process=each), "proved"),
]
NEGATIVE += [replace(POSITIVE[0], process=once)]
