"""Golden cases of H9 eval_share."""

from tests.golden.cases import SCRIPT, healthy, wall

from hotloop.core.finding import Place
from hotloop.core.observed import Evaluation


def evaluations(count: int, seconds: float) -> tuple[Evaluation, ...]:
    return tuple(
        Evaluation(
            at=float(number),
            seconds=seconds,
            step=5 * number,
            batches=40,
            place=Place(file=SCRIPT, line=90),
        )
        for number in range(count)
    )


POSITIVE = [
    healthy(evaluations=evaluations(200, 0.2), wall=wall(evaluate=40.0)),
    healthy(evaluations=evaluations(1, 4.0), wall=wall(evaluate=4.0)),
]
NEGATIVE = [healthy(evaluations=evaluations(10, 0.1), wall=wall(evaluate=1.0))]
