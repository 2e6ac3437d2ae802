"""Golden cases of P3 wasted_compute."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Discarded, Model, Repeat
from hotloop.core.finding import SourceLocation

NET = Model(name="Net", parameters=100_000, trainable=100_000)
ATTENTION = Repeat(
    module="layers.0.attention",
    kind="Attention",
    calls=2.0,
    repeated=1.0,
    parameters=4_000,
    seconds=0.002,
    call_places=(SourceLocation(file=SCRIPT, line=40), SourceLocation(file=SCRIPT, line=43)),
)
INSIDE = replace(ATTENTION, module="layers.0.attention.query", kind="Linear", seconds=0.0015)
TRUNK = Repeat(
    module="trunk",
    kind="Sequential",
    again=0.5,
    frozen=True,
    parameters=90_000,
    seconds=0.002,
    call_places=(SourceLocation(file=SCRIPT, line=61),),
)
HEAD = Discarded(module="head", kind="Sequential", parameters=90_000, seconds=0.002, share=0.9)


def model(*repeats: Repeat, **facts):
    return healthy(models=(replace(NET, repeats=repeats, **facts),))


POSITIVE = [
    model(ATTENTION, INSIDE, replace(ATTENTION, module="layers.1.attention")),
    model(TRUNK),
    model(replace(TRUNK, seconds=None), frozen_prefix_seconds=0.0025),
    model(TRUNK, ATTENTION, discarded=(HEAD,)),
    model(discarded=(HEAD,)),
    model(discarded=(replace(HEAD, returned=True),)),
]
NEGATIVE = [
    model(replace(ATTENTION, repeated=0.0)),  # one layer used in several places
    model(replace(ATTENTION, seconds=0.00001)),
    model(replace(ATTENTION, kind="ReLU", parameters=0, seconds=None)),
    model(replace(TRUNK, frozen=False)),
    model(replace(TRUNK, again=0.0)),
    model(replace(TRUNK, again=None)),
    model(discarded=(replace(HEAD, seconds=0.00001),)),
]
