"""Golden cases of H9 eval_share."""

from dataclasses import replace

from tests.golden.cases import PLANNED, SCRIPT, healthy, planned, wall

from hotloop.core.case.steps_and_loaders import EvaluationSpan
from hotloop.core.finding import SourceLocation


def evaluations(count: int, seconds: float) -> tuple[EvaluationSpan, ...]:
    return tuple(
        EvaluationSpan(
            at=float(number),
            seconds=seconds,
            step=5 * number,
            batches=40,
            place=SourceLocation(file=SCRIPT, line=90),
        )
        for number in range(count)
    )


POSITIVE = [
    healthy(evaluations=evaluations(200, 0.2), wall=wall(evaluate=40.0)),
    healthy(evaluations=evaluations(1, 4.0), wall=wall(evaluate=4.0)),
]
ROLLOUTS = tuple(replace(each, training_mode=True) for each in evaluations(117, 0.2))
STOPPED = {"stopped": "enough steps were seen", "planned_steps": 4000}
POSITIVE += [
    healthy(evaluations=evaluations(3, 0.5), wall=wall(evaluate=1.5), **STOPPED),
    healthy(evaluations=evaluations(1, 9.0), wall=wall(evaluate=9.0), **STOPPED),  # a note
    healthy(evaluations=(*ROLLOUTS, *evaluations(1, 14.0)), wall=wall(evaluate=37.4)),
]
NEGATIVE = [
    healthy(evaluations=ROLLOUTS, wall=wall(evaluate=23.4)),
    # stopped right after the second of two that are far apart
    healthy(
        evaluations=(*evaluations(1, 0.1), replace(evaluations(1, 5.0)[0], at=90.0, step=900)),
        wall=wall(evaluate=5.1),
        **STOPPED,
    ),
    healthy(evaluations=evaluations(10, 0.1), wall=wall(evaluate=1.0)),
    healthy(  # a game is played with the trained model
        evaluations=(
            *evaluations(9, 0.01),
            replace(evaluations(1, 20.0)[0], step=healthy().steps.count),
        ),
        wall=wall(evaluate=20.0),
    ),
]

# Before a run.
LONG = {"rows": {**PLANNED.time.rows, "evaluate": 90.0}}
POSITIVE += [
    planned(time=LONG),
    planned(
        time={**LONG, "validation_batches": 1.0},
        settings={"steps": 1000, "steps_per_epoch": 1, "eval_each_epoch": True},
    ),
]
NEGATIVE += [
    planned(time={"rows": {**PLANNED.time.rows, "evaluate": 20.0}}),
    planned(time=None),
]
