"""The GPU's bus has fewer lanes, or an older generation, than GPU and board could use.

Looks at: generation and width of the PCIe link, the highest seen (an idle GPU lowers it), and the
    time of copies to the GPU.
Says so when: either is below its maximum. The cost is the part of the copies that a full link would
    save: below 2 % of the wall time it is a note.
Stays silent when: the link is whole.
Remedy: another slot, no riser, the BIOS setting.
Numbers: none.
Seen: golden cases only; not yet seen on a GPU.
Source: hotloop; https://docs.nvidia.com/deploy/nvml-api/ (nvmlDeviceGetMaxPcieLinkGeneration)
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, option
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

NAMES = ("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max")


def judge(case: Case) -> Finding | None:
    """Compare the link with the best possible one."""
    best = {name: max(case.readings.get(name, (0.0,))) for name in NAMES}
    if not all(best.values()):
        return None
    now, full = best["pcie_generation"], best["pcie_generation_max"]
    lanes, all_lanes = best["pcie_width"], best["pcie_width_max"]
    speed = 2 ** (now - full) * lanes / all_lanes  # each generation doubles the rate of a lane
    if now >= full and lanes >= all_lanes:
        return None
    return costing(
        case,
        case.row("host to device") * (1 - speed),
        least=0.0,
        claim=f"the GPU's bus runs as PCIe {now:.0f} x{lanes:.0f} and could be {full:.0f} "
        f"x{all_lanes:.0f}",
        evidence={"copies to the GPU": f"{case.share('host to device'):.1%} of the time"},
        remedies=[option("another slot, no riser card, or the BIOS setting")],
    )


RULE = Rule(
    title="The GPU's bus runs below its speed",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU, Needs.READINGS),
    kind="machine",
)
