"""Golden cases of H25 many_calls."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, wall

from hotloop.core.case.objects import Modes
from hotloop.core.finding import SourceLocation

CASE = healthy()
STEPS = replace(CASE.steps, backwards=1.0)
PLACE = SourceLocation(file=SCRIPT, line=44)


def called(times: float, **more):
    model = replace(
        CASE.models[0],
        modes=Modes(updates=1000, passes=float(times)),
        call_places=(PLACE,),
    )
    more = {"steps": STEPS, "wall": wall(forward=40.0, backward=30.0), **more}
    return healthy(models=(model,), **more)


POSITIVE = [
    called(128),
    called(64, steps=replace(STEPS, backwards=4.0)),
]
NEGATIVE = [
    called(1),
    called(64, steps=replace(STEPS, backwards=64.0)),
    called(4),
    called(128, wall=wall(forward=0.5, backward=0.5, after_step=9.0)),
    replace(  # a transform of the samples
        called(128), models=(CASE.models[0], replace(called(128).models[0], trainable=0))
    ),
]
