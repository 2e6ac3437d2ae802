"""More memory is in use than the GPU has: the driver keeps the rest in the host's memory, and each
access goes over the bus.

Looks at: the memory torch holds against the GPU's; on Windows and WSL also a full GPU that
    computes little.
Says so when: torch holds more than the GPU has; or there, memory is 95 % full, the GPU is used
    less than 30 % and draws less than half of its power. Before a run, a note: the driver of this
    system would do so.
Stays silent when: memory fits, or a full GPU works.
Remedy: use less memory first. Then forbid the spill, so that it is an error and not a slow run.
Numbers: bitwise with activation checkpointing; rounding with the others.
Seen: golden cases only; not yet seen on a GPU.
Source: one of the five projects ran at 8 % utilisation with 20.4 GB and 15 GB in the host's memory;
    https://nvidia.custhelp.com/app/answers/detail/a_id/5490 (sysmem fallback policy)
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, option

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware

__all__ = ["RULE", "why_spills"]

FULL, BUSY = 0.95, 0.30  # of the memory; of the time
NAMES = ("gpu_memory_bytes", "gpu_utilisation", "gpu_power_w", "gpu_power_limit_w")
FORBID = option(
    'NVIDIA control panel: "CUDA - Sysmem Fallback Policy" to "Prefer No Sysmem Fallback"'
)


def judge(case: Case) -> Finding | None:
    """Compare the reserved memory with the memory of the GPU."""
    memory = case.hardware.memory_bytes
    if not memory:
        return None
    reserved = max(case.readings.get("reserved_bytes", (0.0,)))
    readings = {name: median(case.readings[name]) for name in NAMES if case.readings.get(name)}
    idle = (
        len(readings) == len(NAMES)
        and why_spills(case.hardware) is not None
        and readings["gpu_memory_bytes"] >= FULL * memory
        and readings["gpu_utilisation"] < BUSY
        and readings["gpu_power_w"] < readings["gpu_power_limit_w"] / 2
    )
    if reserved <= memory and not idle:
        return None
    claim = f"the GPU is full and works {readings.get('gpu_utilisation', 0.0):.0%} of the time"
    if reserved > memory:
        claim = f"torch holds {bytes_(reserved)}, and the GPU has {bytes_(memory)}"
    return Finding(
        claim=f"{claim}: memory spills into the host's",
        severity="critical",
        evidence={name: f"{value:.3g}" for name, value in readings.items()},
        remedies=[
            Remedy(text="half the micro batch and twice the accumulation"),
            FORBID,
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    why = why_spills(case.hardware)
    if why is None or planned.machine is None:
        return None
    return Finding(
        claim=f"a run that needs more memory than the GPU has will not stop but crawl: {why}",
        severity="note",
        remedies=[
            FORBID,
            Remedy(text="hotloop train ... training.memory_fraction=0.9 stops before that"),
        ],
    )


def why_spills(hardware: Hardware) -> str | None:
    """Return why the driver may spill GPU memory into host memory, or None if it does not."""
    system = hardware.versions.get("platform", "").lower()
    if hardware.device != "cuda" or not any(n in system for n in ("windows", "microsoft", "wsl")):
        return None
    return "the Windows driver, under WSL too, puts the rest into the host's memory"


RULE = Rule(
    title="The GPU's memory spills into the host's",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU, Needs.READINGS),
    before_run=_before_run,
    weight=3,
    numerics="rounding",
)
