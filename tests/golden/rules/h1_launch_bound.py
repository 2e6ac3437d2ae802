"""Golden cases of H1 launch_bound."""

from dataclasses import replace

from tests.golden.cases import healthy, on_gpu, wall

starved = replace(healthy().steps, starved=0.95, main_cpu=0.99)
POSITIVE = [
    on_gpu(steps=starved),
    on_gpu(steps=starved, readings={"gpu_utilisation": (0.4, 0.5, 0.5)}),
]
NEGATIVE = [
    on_gpu(steps=replace(starved, starved=0.1)),  # the GPU is behind
    on_gpu(steps=replace(starved, main_cpu=0.3)),  # the host waits for something else
    on_gpu(steps=starved, wall=wall(data_wait=5.0)),  # for data
    on_gpu(steps=starved, readings={"gpu_utilisation": (0.98, 0.99)}),  # 1 % is idle
]
