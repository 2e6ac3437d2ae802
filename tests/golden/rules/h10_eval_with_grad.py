"""Golden cases of H10 eval_with_grad."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, wall

from hotloop.core.case.steps_and_loaders import EvaluationSpan
from hotloop.core.finding import SourceLocation

recorded = EvaluationSpan(
    at=5.0,
    seconds=2.0,
    step=500,
    batches=40,
    place=SourceLocation(file=SCRIPT, line=90),
    with_grad=True,
)
POSITIVE = [healthy(evaluations=(recorded,), wall=wall(evaluate=2.0))]
NEGATIVE = [
    healthy(evaluations=(replace(recorded, with_grad=False),), wall=wall(evaluate=2.0)),
    healthy(evaluations=(replace(recorded, seconds=0.1),)),
    # a step that was left out, in training
    healthy(evaluations=(replace(recorded, training_mode=True),), wall=wall(evaluate=2.0)),
]
