"""Golden cases of H23 split_batch."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment

SPLIT = """
for batch in loader:
    for rows in batch.split(1):
        model(rows).square().mean().backward()
    optimizer.step()
"""
JOINED = Experiment(name="joined batches", what="with 16 micro batches made as one", count=16)
MICRO = replace(healthy().steps, backwards=64.0)


def split(**result: float):
    experiments = (replace(JOINED, steps=5, **result),)
    return healthy(steps=MICRO, sources={SCRIPT: SPLIT}, experiments=experiments)


POSITIVE = [split(gain=4.0, low=3.8, high=4.3)]
NEGATIVE = [
    split(),
    split(gain=1.01, low=1.0, high=1.02),
    split(gain=0.8, low=0.7, high=0.9),
    healthy(steps=MICRO, sources={SCRIPT: SPLIT}),
]
