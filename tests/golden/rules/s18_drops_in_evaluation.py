"""Golden cases of S18 drops_in_evaluation."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Model, Modes
from hotloop.core.finding import SourceLocation

MODEL = Model(
    name="Net",
    drops=(SourceLocation(file=SCRIPT, line=13),),
    modes=Modes(updates=200, scored=8, unset=0),
)


def dropping(**changes):
    return healthy(models=(replace(MODEL, **changes),))


POSITIVE = [dropping(), dropping(modes=Modes(updates=200, scored=8, unset=4))]
NEGATIVE = [
    healthy(),
    dropping(drops=()),
    dropping(modes=None),
    dropping(modes=Modes(updates=200, scored=8, unset=8)),  # in training mode: S17
    dropping(modes=Modes(updates=200)),  # never evaluated
]
