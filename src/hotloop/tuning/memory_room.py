"""Limits the memory of a trial and tells whether two trials fit beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psutil

from hotloop.core.units import bytes_

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.trial import Trial

__all__ = ["how_many", "most_bytes", "why_apart"]

_FULL: Final = 0.8  # of the memory that is free
_CONTEXT: Final = 512 * 1024**2  # GPU bytes of a process's context: a rule of thumb


def most_bytes(hardware: Hardware, *, available: int | None = None) -> int:
    """Return the host memory in bytes that a trial may take. `available` is a seam."""
    free = psutil.virtual_memory().available if available is None else available
    if hardware.host_memory_bytes is not None:  # a cgroup may allow less than is free
        free = min(free, hardware.host_memory_bytes)
    return int(_FULL * free)


def how_many(trial: Trial, hardware: Hardware, *, available: int | None = None) -> int | None:
    """Return how many trials like this one fit into memory together; None: unknown."""
    sizes = _sizes(trial, hardware, available)
    return None if sizes is None else sizes[1] // sizes[0]


def why_apart(trial: Trial, hardware: Hardware, *, available: int | None = None) -> str | None:
    """Return why two trials like this one do not fit into memory together, or None."""
    sizes = _sizes(trial, hardware, available)
    if sizes is None or 2 * sizes[0] <= sizes[1]:
        return None
    return f"one takes {bytes_(sizes[0])}, and two may take {bytes_(sizes[1])}"


def _sizes(trial: Trial, hardware: Hardware, available: int | None) -> tuple[int, int] | None:
    """Return the bytes that a trial takes, and those that all may take; None: unknown."""
    if not trial.peak_bytes:
        return None
    if trial.peak_of != "gpu":
        return trial.peak_bytes, most_bytes(hardware, available=available)
    have = hardware.memory_bytes
    return None if have is None else (trial.peak_bytes + _CONTEXT, int(_FULL * have))
