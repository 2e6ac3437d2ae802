"""Golden cases of G4 dim_align."""

from dataclasses import replace

from tests.golden.cases import healthy, on_gpu

from hotloop.core.case.environment import Operator
from hotloop.core.case.objects import Model

gpt = Model(name="GPT", device="cuda:0", compute="bfloat16", trainable=1, output=(8, 1024, 50257))
mm = Operator(
    name="aten::addmm", shapes="[[512, 1000], [1000, 1001]]", seconds=0.003, share=0.3, calls=1
)
aligned = replace(gpt, output=(8, 1024, 50304))
POSITIVE = [
    on_gpu(models=(gpt,)),
    on_gpu(models=(aligned,), profiled=True, operators=(mm,)),
]
NEGATIVE = [
    on_gpu(models=(aligned,)),
    on_gpu(models=(replace(gpt, compute="float32"),)),
    on_gpu(models=(replace(gpt, output=(8, 10)),)),
    on_gpu(models=(aligned,), profiled=True, operators=(replace(mm, share=0.01),)),
    healthy(models=(replace(gpt, device="cpu"),)),
]
