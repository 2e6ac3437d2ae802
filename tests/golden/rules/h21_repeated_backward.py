"""Golden cases of H21 repeated_backward."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, wall

from hotloop.core.finding import SourceLocation

PLACE = SourceLocation(file=SCRIPT, line=5)


def repeated(share: float | None, seconds: float = 8.0):
    steps = replace(healthy().steps, repeated_graph=share, repeated_places=(PLACE,))
    return healthy(steps=steps, wall=wall(backward=seconds))


POSITIVE = [repeated(0.8), repeated(0.4)]
NEGATIVE = [healthy(), repeated(None), repeated(0.0), repeated(0.8, seconds=0.5)]
