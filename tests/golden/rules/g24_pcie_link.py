"""Golden cases of G24 pcie_link."""

from tests.golden.cases import on_card, wall

full = {
    "gpu_utilisation": (0.9,),
    "pcie_generation": (1.0, 4.0),
    "pcie_generation_max": (4.0,),
    "pcie_width": (16.0,),
    "pcie_width_max": (16.0,),
}
POSITIVE = [
    on_card(readings={**full, "pcie_width": (4.0,)}, wall=wall(host_to_device=2.0)),
    on_card(readings={**full, "pcie_generation": (3.0,)}),
]
NEGATIVE = [on_card(readings=full), on_card(readings={"gpu_utilisation": (0.9,)})]
