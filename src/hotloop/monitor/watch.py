"""Takes a sample at each interval until the time is up, the watched process ends, or a signal."""

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
    """SIGTERM was received; the samples are written as after Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEnded:
    """Why watching ended; `code` is the exit code of the command line."""

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
    """Add a sample to `history` each `interval` seconds, for `seconds` or, if None, until the end.

    `each` gets every sample. `now` and `wait` are seams. Ctrl-C ends watching at once.
    """
    began, number = now(), 0
    suspected = False  # crashed; a run looks so before it has its lock, so two samples decide
    try:
        while seconds is None or (number + 1) * interval <= seconds + 1e-9:
            number += 1
            wait(max(0.0, began + number * interval - now()))
            sample = sampler.take()
            history.add(sample)
            each(sample)
            if (why := _why_over(sampler, sample)) is not None:
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


def _why_over(sampler: ReadingSampler, sample: MachineSample) -> str | None:
    """Return why there is nothing left to watch, or None."""
    if sample.run is not None:
        run = sample.run
        sentence = f"the run is {run.state}" if run.state != "crashed" else "the run crashed"
        return None if run.running else sentence + (f": {run.why}" if run.why else "")
    if sampler.tree is not None and not sampler.tree.alive():
        return f"process {sampler.tree.pid} has ended"
    return None
