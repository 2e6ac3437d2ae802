"""Golden cases of S11 loss_still."""

import math
from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.objects import Model, Optimizer


def losing(*values: float, **changes):
    case = healthy(**changes)
    return replace(case, steps=replace(case.steps, losses=tuple(enumerate(values, 1))))


def noisy(middle: float, count: int = 40):
    return (middle * (1 + 0.01 * math.sin(7 * n)) for n in range(count))


TEN = (Model(name="Net", parameters=100, trainable=100, output=(32, 10)),)
STOPPED = Optimizer(key=1, name="SGD", steps=1000, rates=tuple((n, 0.0) for n in range(1, 60)))
ONE_BATCH = Experiment(name="same batch", what="", steps=90, losses=(2.3, 2.29))
LEARNED = replace(ONE_BATCH, losses=(2.3, 0.4))
POSITIVE = [
    losing(*[0.25] * 40),
    losing(*[0.0] * 40),
    losing(*noisy(math.log(10)), models=TEN),
    healthy(optimizers=(STOPPED,)),
    losing(*noisy(math.log(10)), models=TEN, experiments=(ONE_BATCH,)),
    losing(*noisy(math.log(10)), models=TEN, experiments=(LEARNED,)),
]
NEGATIVE = [
    losing(*[0.25] * 5),
    losing(*(2.3 - n / 100 for n in range(40)), models=TEN),
    losing(*noisy(1.2), models=TEN),  # noise about another level
    losing(*noisy(0.5, 12)),
    losing(*noisy(math.inf), models=TEN),
]
