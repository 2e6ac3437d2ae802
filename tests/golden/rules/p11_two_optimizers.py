"""Golden cases of P11 two_optimizers."""

from tests.golden.cases import healthy

from hotloop.core.case.objects import TwiceUpdated

POSITIVE = [
    healthy(
        twice_updated=(
            TwiceUpdated(optimizers=(0, 1), updates=3, parameters=3200, names=("E.table.weight",)),
        )
    )
]
NEGATIVE = [
    healthy(),
    healthy(twice_updated=(TwiceUpdated(optimizers=(0, 1), updates=1, parameters=3200),)),
]
