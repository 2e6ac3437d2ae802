"""Golden cases of G23 gpu_shared."""

from dataclasses import replace

from tests.golden.cases import GPU, machine, on_gpu

alone = {"gpu_utilisation": (0.9,), "gpu_other_processes": (0.0, 0.0)}
POSITIVE = [
    on_gpu(readings={**alone, "gpu_other_processes": (0.0, 2.0)}),
    on_gpu(hardware=replace(GPU, name="NVIDIA A100-SXM4-40GB MIG 3g.20gb"), readings=alone),
]
NEGATIVE = [on_gpu(readings=alone)]

# Before a run.
POSITIVE += [
    machine(GPU, free_device_bytes=19 << 30),
]
NEGATIVE += [
    machine(GPU, free_device_bytes=20 << 30),
    machine(GPU),
]
