"""Takes a sample at each interval until time is over, the watched one ends, or a signal comes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.monitor.sample import MachineSample, ReadingSampler
    from hotloop.monitor.series import SampleHistory

__all__ = ["Terminated", "WatchEnded", "watch"]

INTERRUPTED, TERMINATED = 130, 143  # exit codes after Ctrl-C and SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM came: what is known is written, as after Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEnded:
    """Why the watching ended; `code` is what the command line ends with."""

    why: str
    code: int = 0


def watch(
    sampler: ReadingSampler,
    history: SampleHistory,
    *,
    interval: float,
    seconds: float | None,
    each: Callable[[MachineSample], None],
    now: Callable[[], float] = clock,
    wait: Callable[[float], object] = time.sleep,
) -> WatchEnded:
    """Fill `history` with a sample each `interval` seconds, for `seconds` or None: until the end.

    `each` gets every sample. `now` and `wait` are seams. Ctrl-C ends it at once.
    """
    began, number = now(), 0
    suspected = False  # that the run crashed: between making its folder and its lock it looks so
    try:
        while seconds is None or (number + 1) * interval <= seconds + 1e-9:
            number += 1
            wait(max(0.0, began + number * interval - now()))
            sample = sampler.take()
            history.add(sample)
            each(sample)
            if (why := _over(sampler, sample)) is not None:
                if suspected or not _crashed(sample):
                    return WatchEnded(why=why)
                suspected = True
            else:
                suspected = False
            number = max(number, int((now() - began) / interval))  # after a sleep of the machine
        return WatchEnded(why=f"the {seconds:g} s are over")
    except Terminated:
        return WatchEnded(why="it was told to end (SIGTERM)", code=TERMINATED)
    except KeyboardInterrupt:
        return WatchEnded(why="Ctrl-C", code=INTERRUPTED)


def _crashed(sample: MachineSample) -> bool:
    return sample.run is not None and sample.run.state == "crashed"


def _over(sampler: ReadingSampler, sample: MachineSample) -> str | None:
    """Return why there is nothing left to watch; None: go on."""
    if sample.run is not None:
        run = sample.run
        said = f"the run is {run.state}" if run.state != "crashed" else "the run crashed"
        return None if run.running else said + (f": {run.why}" if run.why else "")
    if sampler.tree is not None and not sampler.tree.alive():
        return f"process {sampler.tree.pid} has ended"
    return None
