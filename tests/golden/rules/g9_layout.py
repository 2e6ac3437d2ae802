"""Golden cases of G9 layout."""

from dataclasses import replace

from tests.golden.cases import on_gpu

from hotloop.core.case.environment import Operator
from hotloop.core.case.objects import Model

net = Model(
    name="ResNet",
    device="cuda:0",
    trainable=1,
    convolutions=20,
    channels_last=False,
    compute="float16",
)
turn = Operator(name="nchwToNhwcKernel", shapes="", seconds=0.001, share=0.1, calls=40)
POSITIVE = [
    on_gpu(models=(net,)),
    on_gpu(models=(net,), profiled=True, operators=(turn,)),
]
NEGATIVE = [
    on_gpu(models=(replace(net, channels_last=True),)),
    on_gpu(models=(replace(net, convolutions=0),)),
    on_gpu(models=(replace(net, compute="float32"),)),
    on_gpu(models=(net,), profiled=True, operators=(replace(turn, share=0.01),)),
]
