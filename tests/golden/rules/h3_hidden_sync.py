"""Golden cases of H3 hidden_sync."""

from tests.golden.cases import SCRIPT, healthy, on_card

from hotloop.core.case.steps_and_loaders import Sync
from hotloop.core.finding import SourceLocation

LOOP = """
for x, y in loader:
    kept = (y != 0).nonzero()
    loss = model(x)[kept].mean()
    loss.backward()
    optimizer.step()
"""
STATIC = """
for x, y in loader:
    target = F.one_hot(y, num_classes=10)
    loss = torch.where(y != 0, model(x), 0.0).mean()
    loss.backward()
    optimizer.step()
"""
seen = Sync(
    method="nonzero", place=SourceLocation(file=SCRIPT, line=3), calls=4, per_step=1.0, seconds=1.5
)
POSITIVE = [
    on_card(sources={SCRIPT: LOOP}),
    on_card(sources={SCRIPT: LOOP}, syncs=(seen,)),
    on_card(sources={SCRIPT: LOOP.replace(".nonzero()", ".unique()")}),
]
NEGATIVE = [
    healthy(sources={SCRIPT: LOOP}),  # on the CPU
    on_card(sources={SCRIPT: STATIC}),
    on_card(sources={SCRIPT: "mask = (labels != 0).nonzero()\n"}),  # before training
]
