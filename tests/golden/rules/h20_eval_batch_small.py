"""Golden cases of H20 eval_batch_small."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, wall

from hotloop.core.case.case import Case
from hotloop.core.case.steps_and_loaders import EvaluationSpan
from hotloop.core.finding import SourceLocation


def with_batches_of(size: int, seconds: float) -> Case:
    train = healthy().loaders[0]
    other = replace(
        train, key=2, role="evaluate", batch_size=size, place=SourceLocation(file=SCRIPT, line=24)
    )
    return healthy(
        wall=wall(evaluate=seconds),
        loaders=(train, other),
        evaluations=(EvaluationSpan(at=1.0, seconds=seconds, step=500, batches=100),),
    )


POSITIVE = [with_batches_of(1, 9.0), with_batches_of(8, 9.0)]
NEGATIVE = [with_batches_of(32, 9.0), with_batches_of(1, 0.3), with_batches_of(16, 9.0)]
