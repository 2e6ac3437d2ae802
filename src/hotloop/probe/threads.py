"""How many compute threads have a core of their own right now."""

from __future__ import annotations

import psutil
import torch

__all__ = ["usable_threads"]

SAMPLE_S = 0.2  # how long the load of other processes is watched


def usable_threads(cores: float | None, *, sample_s: float = SAMPLE_S) -> tuple[int, str]:
    """Return (threads, why): torch's own count, cut to the cores allowed and those now free.

    The caller does nothing meanwhile, so all load seen is of others. A thread without a core of its
    own makes the rest of the team spin: one step took 570 ms, not 46, on 2 cores (docs/log.md).
    """
    asked = torch.get_num_threads()
    allowed = max(1, int(cores)) if cores is not None else asked
    machine = psutil.cpu_count() or allowed
    free = machine * (1 - psutil.cpu_percent(interval=sample_s) / 100)
    threads = max(1, min(asked, allowed, round(free)))
    if threads == asked:
        return threads, "torch's own count; each thread has a core"
    if threads == allowed:
        return threads, f"torch starts {asked}, this process has {allowed} cores"
    return threads, f"{machine - free:.1f} of {machine} cores are busy with other processes"
