"""The resources of this machine that other processes leave free right now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.machine.threads import load, others

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.hardware import Hardware
    from hotloop.machine.threads import Load

__all__ = ["Free", "free_now"]

WATCH_S = 0.5  # how long the load of other processes is measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """The resources that are free now."""

    memory_bytes: int | None  # of the device; on a CPU, of the host
    host_memory_bytes: int
    busy_cores: float  # cores of the machine that other processes use
    shm_bytes: int | None = None  # size of /dev/shm; None: there is none
    shm_free_bytes: int | None = None


def free_now(
    hardware: Hardware,
    *,
    torch: Any = None,
    look: Callable[[], Load] = load,
    wait: Callable[[float], object] = time.sleep,
) -> Free:
    """Measure the machine for half a second. `torch`, `look` and `wait` are seams."""
    before = look()
    wait(WATCH_S)
    after = look()
    host = psutil.virtual_memory().available
    if hardware.host_memory_bytes is not None:  # a cgroup may allow less than is free
        host = min(host, hardware.host_memory_bytes)
    device: int | None = host if hardware.device == "cpu" else None
    if hardware.device == "cuda":
        if torch is None:
            import torch
        device = int(torch.cuda.mem_get_info()[0])
    shm = _shared_memory()
    return Free(
        memory_bytes=device,
        host_memory_bytes=host,
        busy_cores=others(before, after),
        shm_bytes=shm[0],
        shm_free_bytes=shm[1],
    )


def _shared_memory() -> tuple[int | None, int | None]:
    try:
        usage = psutil.disk_usage("/dev/shm")
    except OSError:  # Windows, macOS
        return None, None
    return usage.total, usage.free
