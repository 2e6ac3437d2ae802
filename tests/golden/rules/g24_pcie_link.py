"""Golden cases of G24 pcie_link."""

from tests.golden.cases import on_gpu, wall

full = {
    "gpu_utilisation": (0.9,),
    "pcie_generation": (1.0, 4.0),
    "pcie_generation_max": (4.0,),
    "pcie_width": (16.0,),
    "pcie_width_max": (16.0,),
}
POSITIVE = [
    on_gpu(readings={**full, "pcie_width": (4.0,)}, wall=wall(host_to_device=2.0)),
    on_gpu(readings={**full, "pcie_generation": (3.0,)}),
]
NEGATIVE = [on_gpu(readings=full), on_gpu(readings={"gpu_utilisation": (0.9,)})]
