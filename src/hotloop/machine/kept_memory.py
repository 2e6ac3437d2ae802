"""Memory that is freed: whether glibc gives it back to the system, and what that costs.

glibc maps each large block of its own and unmaps it when it is freed. The next block is mapped
again, and the kernel clears each of its pages at the first access: a page fault.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time

__all__ = [
    "can_keep",
    "fault_seconds",
    "give_back_memory",
    "keep_memory",
    "page_faults",
]

# Of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_USUAL_MAX, _LARGEST = 65_536, 32 << 20  # of blocks; bytes, to which glibc raises its threshold
_PAGES, _ROUNDS = 1024, 5  # that are touched to time a fault


def can_keep() -> bool:
    """Return whether this process allocates with glibc."""
    try:
        return sys.platform == "linux" and bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (OSError, ValueError):  # another C library, such as musl
        return False


def keep_memory() -> bool:
    """Let glibc keep all memory that is freed from now on; return whether it does."""
    if not can_keep():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, -1))


def give_back_memory() -> None:
    """Let glibc give memory back again, with the thresholds that it reaches by itself."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_MAX, _USUAL_MAX)
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
    libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST)
    libc.malloc_trim(0)


def page_faults() -> int | None:
    """Return the page faults of this process that read nothing; None where nobody counts them."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def fault_seconds() -> float:
    """Return the seconds of a page fault on this machine, the least of five readings."""
    readings = []
    size = _PAGES * mmap.PAGESIZE
    for _ in range(_ROUNDS):
        with mmap.mmap(-1, size) as memory:
            began = time.perf_counter()
            for page in range(0, size, mmap.PAGESIZE):
                memory[page] = 1
            first = time.perf_counter()
            for page in range(0, size, mmap.PAGESIZE):
                memory[page] = 1
            again = time.perf_counter()
        readings.append(max(0.0, 2 * first - began - again) / _PAGES)
    return min(readings)
