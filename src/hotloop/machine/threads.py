"""How many compute threads have a core of their own right now."""

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

LEAST_S, MOST_S = 0.2, 10.0  # how long the load is watched; the system counts in steps of 0.01 s
_IDLE = ("idle", "iowait", "guest", "guest_nice")  # the last two stand in user and nice as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What has been computed up to a moment, CPU seconds."""

    at: float  # s
    everyone: float  # all processes of the machine
    own: float  # this process


def load(*, children: bool = False) -> Load:
    """Return the load up to now. With `children`, those that have ended count as this process."""
    spent = psutil.cpu_times()._asdict()
    ended = os.times() if children else None
    return Load(
        at=time.perf_counter(),
        everyone=sum(seconds for name, seconds in spent.items() if name not in _IDLE),
        own=time.process_time() + (ended.children_user + ended.children_system if ended else 0.0),
    )


def others(before: Load, after: Load) -> float:
    """Return how many cores other processes kept busy between two looks."""
    spent = (after.everyone - before.everyone) - (after.own - before.own)
    return max(0.0, spent / (after.at - before.at))


_watched: dict[str, Load] = {}


def watch(*, look: Callable[[], Load] = load) -> None:
    """Begin to watch, so that `usable_threads` need not wait; meanwhile one may do other things."""
    _watched["since"] = look()


def usable_threads(
    cores: float | None,
    *,
    look: Callable[[], Load] = load,
    wait: Callable[[float], object] = time.sleep,
) -> tuple[int, str]:
    """Return (threads, why): torch's own count, cut to the cores allowed and those now free.

    The load is that since `watch`, without this process's own; where that is too short or too long
    ago, of LEAST_S seconds from now. A thread without a core of its own makes the rest of the team
    spin: one step took 570 ms, not 46, on 2 cores (docs/log.md).
    """
    import torch

    now = look()
    since = _watched.get("since", now)
    if not LEAST_S <= now.at - since.at <= MOST_S:
        since = now
        wait(LEAST_S)
        now = look()
    busy = others(since, now)
    own_count = torch.get_num_threads()
    allowed = max(1, int(cores)) if cores is not None else own_count
    machine = psutil.cpu_count() or allowed
    threads = max(1, min(own_count, allowed, round(machine - busy)))
    if threads == own_count:
        return threads, "torch's own count; each thread has a core"
    if threads == allowed:
        return threads, f"torch starts {own_count}, this process has {many(allowed, 'core')}"
    return threads, f"{busy:.1f} of {machine} cores are busy with other processes"
