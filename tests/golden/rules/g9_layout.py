"""Golden cases of G9 layout."""

from dataclasses import replace

from tests.golden.cases import healthy, on_gpu

from hotloop.core.case.environment import Operator
from hotloop.core.case.experiment import Experiment
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

FASTER = Experiment(
    name="channels last", what="with channels_last", steps=40, gain=1.2, low=1.15, high=1.25
)
POSITIVE += [healthy(models=(net,), experiments=(FASTER,))]
NEGATIVE += [
    healthy(models=(net,)),
    healthy(models=(net,), experiments=(replace(FASTER, gain=1.0, low=0.98, high=1.01),)),
]
