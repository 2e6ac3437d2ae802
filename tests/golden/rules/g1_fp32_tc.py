"""Golden cases of G1 fp32_tc."""

from dataclasses import replace

from tests.golden.cases import GPU, healthy, on_gpu

from hotloop.core.case.environment import Operator, ProcessFacts

off = ProcessFacts(switches={"cuda.matmul.fp32_precision": "ieee"})
mm = Operator(
    name="aten::mm", shapes="", seconds=0.004, share=0.6, calls=10, device="cuda", dtype="float32"
)
POSITIVE = [
    on_gpu(process=off),
    on_gpu(process=off, profiled=True, operators=(mm,)),
]
NEGATIVE = [
    on_gpu(process=ProcessFacts(switches={"cuda.matmul.fp32_precision": "tf32"})),
    on_gpu(process=replace(off, autocast=("cuda bfloat16",))),
    on_gpu(process=off, profiled=True, operators=(replace(mm, share=0.1),)),
    on_gpu(process=off, hardware=replace(GPU, name="Tesla T4", capability=(7, 5))),
    healthy(process=off),
]
