"""Golden cases of S15 gradients_kept."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.finding import SourceLocation

PLACE = SourceLocation(file=SCRIPT, line=12)


def steps(share: float | None, looks: int = 12):
    facts = {"kept_gradients": share, "gradient_looks": looks, "backward_place": PLACE}
    return healthy(steps=replace(healthy().steps, **facts))


POSITIVE = [steps(1.0)]
NEGATIVE = [healthy(), steps(None), steps(0.0), steps(0.9), steps(1.0, looks=3)]
