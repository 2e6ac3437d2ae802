"""Golden cases of S17 evaluates_in_training."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Model, Modes
from hotloop.core.case.steps_and_loaders import EvaluationSpan
from hotloop.core.finding import SourceLocation

SPAN = EvaluationSpan(
    at=3.0,
    seconds=0.2,
    step=100,
    batches=8,
    place=SourceLocation(file=SCRIPT, line=13),
    training_mode=True,
    loader=1,
)
MODES = Modes(layers={"Dropout": 2}, updates=200, scored=8, unset=8)


def evaluated(**changes):
    models = (Model(name="Net", modes=replace(MODES, **changes)),)
    return healthy(models=models, evaluations=(SPAN,))


POSITIVE = [evaluated(), evaluated(unset=4), evaluated(layers={"BatchNorm1d": 1})]
NEGATIVE = [
    healthy(),
    healthy(models=(Model(name="Net"),)),
    evaluated(layers={}),
    evaluated(unset=3),
    evaluated(scored=0, unset=0),  # they read the training's loader, or none
]
