"""Golden cases of M1 data_parallel."""

from dataclasses import replace

from tests.golden.cases import CARD, on_card

from hotloop.core.case.objects import Model

two = replace(CARD, count=2)
wrapped = Model(name="Net", device="cuda:0", trainable=1, wrapped="DataParallel")
POSITIVE = [on_card(hardware=two, models=(wrapped,))]
NEGATIVE = [
    on_card(models=(wrapped,)),
    on_card(hardware=two, models=(replace(wrapped, wrapped="DistributedDataParallel"),)),
]
