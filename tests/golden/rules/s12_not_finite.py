"""Golden cases of S12 not_finite."""

import math
from dataclasses import replace

from tests.golden.cases import healthy, planned


def losing(*values: float, nonfinite: int | None = None):
    case = healthy()
    losses = tuple(enumerate(values, 1))
    return replace(case, steps=replace(case.steps, losses=losses, nonfinite=nonfinite))


POSITIVE = [
    losing(2.0, 1.9, math.inf, 1.8),
    losing(2.0, 9.0, math.inf, math.inf, nonfinite=3),
    losing(2.0, 1.9, nonfinite=700),
    losing(nonfinite=1),
]
NEGATIVE = [losing(2.0, 1.9), losing(1e30, 0.0)]

# Before a run.
POSITIVE += [
    planned(settings={"problem": "the loss is nan at optimizer step 1"}),
]
NEGATIVE += [
    planned(),
]
