"""Detects GPU memory that spills into host memory, which drivers for Windows do silently.

Source: https://nvidia.custhelp.com/app/answers/detail/a_id/5490 (sysmem fallback policy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import bytes_

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware

__all__ = ["spilled", "spills"]

FULL, IDLE = 0.95, 0.3  # share of memory, share of time: as in rule G17


def spills(hardware: Hardware) -> bool:
    """Whether the driver moves memory that does not fit to the host, without an error."""
    system = hardware.versions.get("platform", "").lower()
    names = ("windows", "microsoft", "wsl")
    return hardware.device == "cuda" and any(name in system for name in names)


def spilled(hardware: Hardware, held: float | None, busy: float | None) -> str | None:
    """Return, from live readings, how memory spills; None if the readings do not show it.

    `held` are the bytes of torch's tensors on the GPU; `busy` is the share of time it computes.
    """
    have = hardware.memory_bytes
    if hardware.device != "cuda" or not have or held is None:
        return None
    idle = spills(hardware) and held >= FULL * have and busy is not None and busy < IDLE
    if held <= have and not idle:
        return None
    works = "" if busy is None else f" and works {busy:.0%} of the time"
    return (
        f"memory spills into the host's: tensors take {bytes_(held)}, {hardware.name} has "
        f"{bytes_(have)}{works}; raise training.accumulation (hotloop doctor: rule G17)"
    )
