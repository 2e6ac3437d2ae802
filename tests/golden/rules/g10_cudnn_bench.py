"""Golden cases of G10 cudnn_bench."""

from dataclasses import replace

from tests.golden.cases import on_gpu

from hotloop.core.case.environment import Operator, ProcessFacts
from hotloop.core.case.objects import Model
from hotloop.core.case.steps_and_loaders import BatchFacts

net = Model(name="ResNet", device="cuda:0", trainable=1, convolutions=20)
off = ProcessFacts(switches={"cudnn.benchmark": "False"})
on = ProcessFacts(switches={"cudnn.benchmark": "True"})
one, many = (BatchFacts(sampled=20, variety=1),), (BatchFacts(sampled=20, variety=15),)
conv = Operator(name="aten::cudnn_convolution", shapes="", seconds=0.005, share=0.5, calls=20)
POSITIVE = [
    on_gpu(models=(net,), process=off, batches=one),
    on_gpu(models=(net,), process=off, batches=one, profiled=True, operators=(conv,)),
    on_gpu(models=(net,), process=on, batches=many),
]
NEGATIVE = [
    on_gpu(models=(net,), process=on, batches=one),
    on_gpu(models=(net,), process=off, batches=many),
    on_gpu(process=off, batches=one),  # no convolution
    on_gpu(
        models=(net,),
        process=off,
        batches=one,
        profiled=True,
        operators=(replace(conv, share=0.1),),
    ),
]
