"""Golden cases of G26 wrong_device."""

from dataclasses import replace

from tests.golden.cases import CPU, GPU, healthy, machine

POSITIVE = [
    healthy(hardware=GPU),
    healthy(hardware=replace(CPU, versions={"driver": "535.104.05", "torch": "2.13.0+cpu"})),
]
NEGATIVE = [healthy(hardware=replace(CPU, versions={"torch": "2.13.0+cpu"}))]

# Before a run.
DRIVEN = replace(CPU, versions={"driver": "535.104", "torch": "2.13.0"})
POSITIVE += [
    machine(gpu_here="nvidia-smi"),
    machine(DRIVEN, gpu_here="a driver (535.104)", torch_cuda="13.0"),
    machine(DRIVEN, gpu_here="a driver (535.104)", torch_cuda="12.6"),
]
NEGATIVE += [
    machine(DRIVEN),
    machine(GPU, gpu_here="nvidia-smi"),
]
