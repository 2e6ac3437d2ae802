"""How many compute threads can have a core of their own right now."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from hotloop.core.units import many

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Load", "load", "others", "usable_threads", "watch"]

LEAST_S, MOST_S = 0.2, 10.0  # duration of a load measurement; the system counts in steps of 0.01 s
_IDLE = ("idle", "iowait", "guest", "guest_nice")  # user and nice include the last two


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The CPU seconds used up to a moment."""

    at: float  # s
    everyone: float  # all processes of the machine
    own: float  # this process


def load(*, children: bool = False) -> Load:
    """Return the load so far. With `children`, finished child processes count as this process."""
    spent = psutil.cpu_times()._asdict()
    ended = os.times() if children else None
    return Load(
        at=time.perf_counter(),
        everyone=sum(seconds for name, seconds in spent.items() if name not in _IDLE),
        own=time.process_time() + (ended.children_user + ended.children_system if ended else 0.0),
    )


def others(before: Load, after: Load) -> float:
    """Return how many cores other processes kept busy between two readings."""
    spent = (after.everyone - before.everyone) - (after.own - before.own)
    return max(0.0, spent / (after.at - before.at))


_watched: dict[str, Load] = {}


def watch(*, look: Callable[[], Load] = load) -> None:
    """Begin to measure the load in the background, so that `usable_threads` need not wait."""
    _watched["since"] = look()


def usable_threads(
    cores: float | None,
    *,
    look: Callable[[], Load] = load,
    wait: Callable[[float], object] = time.sleep,
) -> tuple[int, str]:
    """Return (threads, why): torch's own count, limited to the allowed and the free cores.

    The load is that of other processes since `watch` or, if that was too recent or too long ago,
    during the next LEAST_S seconds. A thread without a core of its own makes the other threads
    spin: one step took 570 ms instead of 46 on 2 cores (docs/log.md).
    """
    import torch

    own_count, why_own = torch.get_num_threads(), "torch's own count; each thread has a core"
    if own_count == 1:  # no load changes that
        return 1, why_own
    now = look()
    since = _watched.get("since", now)
    if not LEAST_S <= now.at - since.at <= MOST_S:
        since = now
        wait(LEAST_S)
        now = look()
    busy = others(since, now)
    allowed = max(1, int(cores)) if cores is not None else own_count
    machine = psutil.cpu_count() or allowed
    threads = max(1, min(own_count, allowed, round(machine - busy)))
    if threads == own_count:
        return threads, why_own
    if threads == allowed:
        return threads, f"torch starts {own_count}, this process has {many(allowed, 'core')}"
    return threads, f"{busy:.1f} of {machine} cores are busy with other processes"
