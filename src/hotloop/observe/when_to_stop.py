"""Decides when a script has been observed enough, and stops it if it may be stopped."""

from __future__ import annotations

import ctypes
import itertools
import math
import statistics
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotloop.observe.hooks.event_buffer import BITS, EventCode
from hotloop.observe.wall.wall_time import steps_in
from hotloop.process.internal_frames import hide
from hotloop.process.run_script import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.observe.hooks.event_buffer import EventBuffer

__all__ = ["PATIENCE", "StopLimits", "WhenToStop", "has_evaluated", "is_steady"]

_SECONDS, _STEPS, _DRIFT = 3.0, 40, 0.10  # for steady steps; first half against all
_STOPS = 3  # times that Stopped is raised, at most
_EVERY = 0.25  # seconds between two looks at the run, about
PATIENCE = 15.0  # seconds
_PARTS = 3.0  # times the patience, for a part of the loop that comes until then
_GRACE = 5.0  # seconds beyond the limit after which a script without steps is ended


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLimits:
    """When observing ends the script early; with `full`, never."""

    steps: int | None = None  # optimizer steps
    seconds: float | None = 120.0  # since the first batch or forward pass
    # Seconds of training after which a steady run need not evaluate and save; None: it must.
    patience: float | None = PATIENCE
    full: bool = False
    probing: bool = True  # examine models and batches as well


class WhenToStop:
    """Follows one run, and ends it by raising Stopped in the script."""

    def __init__(
        self,
        limits: StopLimits,
        events: EventBuffer,
        next_part: Callable[[float], float] = lambda _: math.inf,
    ) -> None:
        """`next_part` returns the seconds until a part of the loop comes that was not seen."""
        self.limits = limits
        self._next_part = next_part
        self.reason: str | None = None  # why the script was stopped
        self.ignored: str | None = None  # why it should have stopped; it caught Stopped
        self.full_at: int | None = None  # updates at which the event buffer was full
        self._events = events
        self._epochs = 0  # started, with gradients on
        self._epoch_ends: float | None = None  # updates at which the first epoch ends
        self._began: float | None = None  # seconds, when training began
        self._raised = 0
        self._missing = self._count_at = limits.steps or 0  # steps; updates at which to count

    def begin(self) -> bool:
        """Note the first batch or forward pass; return whether this was the first."""
        is_first = self._began is None
        if is_first:
            self._began = time.perf_counter()
        return is_first

    def together(self, steps: int) -> None:
        """Stop after `steps` unless a number was requested: by time, ranks would stop apart."""
        if not self.limits.full and self.limits.steps is None:
            self.limits = replace(self.limits, steps=steps, seconds=None)
            self._missing = self._count_at = steps

    def epoch(self, updates: int, batches: int | None) -> None:
        """Note that a loader begins an epoch of so many batches for the training."""
        self._epochs += 1
        self._epoch_ends = None if batches is None else updates + batches

    def next_look(self, updates: int, now: float) -> int:
        """Return the number of updates at which to look again, about _EVERY seconds from now."""
        rate = updates / max(now - (self._began or now), 1e-3)
        look = updates + max(1, min(1000, int(rate * _EVERY)))
        return min(look, self._count_at) if self._count_at > updates else look

    def enough(self, updates: int, now: float, *, has_saved: bool) -> str | None:
        """Return why the run has been observed enough after this many updates, or None."""
        limits = self.limits
        if limits.full:
            return None
        if self.full_at is not None:
            return "no more marks are kept in one run"
        if limits.steps is not None:
            enough = self._are_made(limits.steps, updates)
            return f"{limits.steps} steps were asked for" if enough else None
        if is_steady(self._events.marks) and has_saved and has_evaluated(self._events.marks):
            return "steady, and one evaluation and one save were seen"
        if self._is_patient(updates, now) and is_steady(self._events.marks):
            return f"steady, and no evaluation or no save came in {limits.patience:g} s of training"
        return self._late(now)

    def _is_patient(self, updates: int, now: float) -> bool:
        """Whether enough of the training was seen.

        That is its first epoch, unless it takes too long, and what its loop does soon.
        """
        limits, trained = self.limits, now - (self._began or now)
        if limits.patience is None or limits.seconds is None or trained < limits.patience:
            return False
        if trained + self._next_part(now) < _PARTS * limits.patience:
            return False
        if self._epochs != 1 or self._epoch_ends is None:
            return True
        left = (self._epoch_ends - updates) * trained / max(updates, 1)
        return left > limits.seconds - trained

    def stop(self, why: str) -> None:
        """Raise Stopped; a script that has caught it _STOPS times may go on."""
        if self._raised == _STOPS:  # a bare `except:` caught them all
            self.reason, self.ignored = None, self.ignored or why
            return
        self.reason = why
        self._raised += 1  # something may catch it; the next step raises it again
        raise Stopped(why)

    def when_late(self) -> None:
        """End a script that no longer makes steps; called after each sample of the stack."""
        if self.reason or self.ignored:
            return
        if (why := self._late(time.perf_counter() - _GRACE)) is not None:
            self.reason = why
            _raise_in(self._events.thread)

    def _are_made(self, steps: int, updates: int) -> bool:
        """Whether this many steps have been made.

        They are counted only at the earliest update at which they may be complete, so that the
        ranks of a group, which look at different times, stop together.
        """
        if self._missing > 0 and updates >= self._count_at:
            self._missing = steps - steps_in(self._events.read())
            self._count_at = updates + self._missing
        return self._missing <= 0

    def _late(self, now: float) -> str | None:
        limit = self.limits.seconds
        if self.limits.full or limit is None or self._began is None or now - self._began < limit:
            return None
        return f"{limit:g} s of training were observed"


def is_steady(marks: Sequence[int]) -> bool:
    """Whether the last steps took as long as those before them."""
    ends = [mark >> BITS for mark in marks[-8_000:] if mark & 31 == EventCode.UPDATE_END]
    if len(ends) < _STEPS or (ends[-1] - ends[0]) / 1e9 < _SECONDS:
        return False
    durations = [end - begin for begin, end in itertools.pairwise(ends)]
    whole, first = statistics.median(durations), statistics.median(durations[: len(durations) // 2])
    return abs(first - whole) <= _DRIFT * whole


def has_evaluated(marks: Sequence[int]) -> bool:
    """Whether the last marks contain a forward pass without a backward pass."""
    return any(mark & 31 in (EventCode.EVAL, EventCode.SILENT) for mark in marks[-20_000:])


def _raise_in(thread: int) -> None:
    """Make a thread raise Stopped as soon as it runs Python code again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stopped))


hide(globals())
