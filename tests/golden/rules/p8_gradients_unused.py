"""Golden cases of P8 gradients_unused."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Model
from hotloop.core.finding import SourceLocation

STUDENT = healthy().models[0]
TEACHER = Model(
    name="Teacher",
    parameters=900_000,
    trainable=900_000,
    unoptimised=900_000,
    call_places=(SourceLocation(file=SCRIPT, line=41),),
)
POSITIVE = [healthy(models=(STUDENT, TEACHER))]
NEGATIVE = [
    healthy(models=(STUDENT, replace(TEACHER, unoptimised=0))),
    healthy(models=(replace(STUDENT, unoptimised=100_000),)),  # updated by hand
]
