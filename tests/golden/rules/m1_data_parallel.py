"""Golden cases of M1 data_parallel."""

from dataclasses import replace

from tests.golden.cases import GPU, on_gpu

from hotloop.core.case.objects import Model

two = replace(GPU, count=2)
wrapped = Model(name="Net", device="cuda:0", trainable=1, wrapped="DataParallel")
POSITIVE = [on_gpu(hardware=two, models=(wrapped,))]
NEGATIVE = [
    on_gpu(models=(wrapped,)),
    on_gpu(hardware=two, models=(replace(wrapped, wrapped="DistributedDataParallel"),)),
]
