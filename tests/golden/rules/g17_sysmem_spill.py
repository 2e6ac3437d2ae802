"""Golden cases of G17 sysmem_spill."""

from dataclasses import replace

from tests.golden.cases import GPU, machine, on_gpu

GIB = float(1 << 30)
WSL = replace(GPU, versions={"platform": "Linux-5.15.153.1-microsoft-standard-WSL2-x86_64"})
full = {
    "gpu_utilisation": (0.08, 0.07, 0.09),
    "gpu_memory_bytes": (23.5 * GIB,) * 3,
    "gpu_power_w": (90.0,) * 3,
    "gpu_power_limit_w": (350.0,) * 3,
}
POSITIVE = [
    on_gpu(hardware=WSL, readings=full),
    on_gpu(readings={"gpu_utilisation": (0.1,), "reserved_bytes": (35 * GIB,)}),
]
NEGATIVE = [
    on_gpu(readings=full),  # Linux does not spill
    on_gpu(hardware=WSL, readings={**full, "gpu_utilisation": (0.95,)}),
    on_gpu(hardware=WSL, readings={**full, "gpu_memory_bytes": (12 * GIB,)}),
]

# Before a run.
POSITIVE += [
    machine(replace(GPU, versions={"platform": "Windows-11-10.0"})),
    machine(replace(GPU, versions={"platform": "Linux-5.15.90.1-microsoft-standard-WSL2"})),
]
NEGATIVE += [
    machine(replace(GPU, versions={"platform": "Linux-6.8-x86_64"})),
]
