"""Golden cases of S19 update_again."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.finding import SourceLocation

PLACE = SourceLocation(file=SCRIPT, line=12)


def steps(share: float | None, looks: int = 5):
    facts = {"made_again": share, "again_looks": looks, "again_place": PLACE}
    return healthy(steps=replace(healthy().steps, **facts))


POSITIVE = [steps(0.4), steps(0.6)]
NEGATIVE = [healthy(), steps(None), steps(0.0), steps(0.1), steps(1.0), steps(0.6, looks=3)]
