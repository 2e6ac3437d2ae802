"""Golden cases of G25 low_mfu."""

from dataclasses import replace

from tests.golden.cases import GPU, healthy, on_gpu, wall

steps = healthy().steps
slow = replace(steps, flops=2e10)  # in 10 ms: 2 of 35.6 TFLOP/s
POSITIVE = [
    on_gpu(steps=slow),
    on_gpu(steps=replace(steps, tokens=10_000.0)),  # 6 per parameter and token
]
NEGATIVE = [
    on_gpu(steps=replace(steps, flops=2e11)),
    on_gpu(steps=slow, wall=wall(data_wait=10.0)),
    on_gpu(steps=replace(slow, starved=0.9)),
    on_gpu(steps=slow, hardware=replace(GPU, name="an unknown GPU")),
    healthy(steps=slow),
]
