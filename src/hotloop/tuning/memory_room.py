"""Limits the memory of a trial and tells whether two trials fit beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psutil

from hotloop.core.units import bytes_

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.trial import Trial

__all__ = ["most_bytes", "why_apart"]

_FULL: Final = 0.8  # of the memory that is free
_CONTEXT: Final = 512 * 1024**2  # GPU bytes of a process's context: a rule of thumb


def most_bytes(hardware: Hardware, *, available: int | None = None) -> int:
    """Return the host memory in bytes that a trial may take. `available` is a seam."""
    free = psutil.virtual_memory().available if available is None else available
    if hardware.host_memory_bytes is not None:  # a cgroup may allow less than is free
        free = min(free, hardware.host_memory_bytes)
    return int(_FULL * free)


def why_apart(trial: Trial, hardware: Hardware, *, available: int | None = None) -> str | None:
    """Return why two trials like this one do not fit into memory together, or None."""
    if trial.peak_bytes is None:
        return None
    if trial.peak_of == "gpu":
        one, have = trial.peak_bytes + _CONTEXT, hardware.memory_bytes
        most = None if have is None else int(_FULL * have)
    else:
        one, most = trial.peak_bytes, most_bytes(hardware, available=available)
    if most is None or 2 * one <= most:
        return None
    return f"one takes {bytes_(one)}, and two may take {bytes_(most)}"
