"""Golden cases of G33 no_convolution."""

from tests.golden.cases import on_gpu

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Model

on = ProcessFacts(switches={"cudnn.benchmark": "True"})
net = Model(name="ResNet", device="cuda:0", trainable=1, convolutions=20)
POSITIVE = [on_gpu(process=on)]
NEGATIVE = [
    on_gpu(process=on, models=(net,)),
    on_gpu(process=ProcessFacts(switches={"cudnn.benchmark": "False"})),
]
