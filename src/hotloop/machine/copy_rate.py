"""Measures how many bytes per second the CPU reads and writes in a copy: the memory's ceiling."""

from __future__ import annotations

import statistics
import time

__all__ = ["measure_copy"]

_BYTES = 64 << 20  # larger than the caches of most processors, and copied in some 10 ms
_READINGS = 5


def measure_copy() -> float:
    """Return bytes per second, read and written, of copies within the CPU's memory."""
    import torch

    source = torch.ones(_BYTES, dtype=torch.uint8)
    target = torch.empty_like(source)
    readings = []
    for _ in range(_READINGS):
        started = time.perf_counter()
        target.copy_(source)
        readings.append(2 * _BYTES / (time.perf_counter() - started))
    return statistics.median(readings)
