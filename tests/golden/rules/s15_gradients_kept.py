"""Golden cases of S15 gradients_kept."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.finding import SourceLocation

PLACE = SourceLocation(file=SCRIPT, line=12)


def steps(share: float | None):
    return healthy(steps=replace(healthy().steps, kept_gradients=share, backward_place=PLACE))


POSITIVE = [steps(1.0)]
NEGATIVE = [healthy(), steps(None), steps(0.0), steps(0.9)]
