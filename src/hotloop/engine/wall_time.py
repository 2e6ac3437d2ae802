"""Where the wall time went: every second since the start belongs to exactly one row."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ROWS", "WallTime", "recompiling"]

ROWS = ("start", "compile", "data wait", "step", "evaluate", "save", "other")
_EXCHANGE = "exchange"  # with several ranks, a row of its own after the steps
_AFTER = ROWS.index("step") + 1
_ROW_OF = {
    "data": "data wait",
    "forward": "step",
    "backward": "step",
    "update": "step",
    "wait": "step",
}


class WallTime:
    """Charges the time since the last mark to a phase; the marks leave no gap."""

    def __init__(self, clock: Callable[[], float], *, began: float | None = None) -> None:
        self._clock = clock
        self.began = self._last = clock() if began is None else began
        self._seconds: dict[str, float] = {}
        self._paused: tuple[str, float] | None = None  # a phase inside another, and its start
        self.step: dict[str, float] = {}  # phases of the step in flight, seconds

    def pause(self, phase: str) -> None:
        """Interrupt the current phase with a stretch that is charged to `phase`."""
        if self._paused is None:
            self._paused = phase, self._clock()

    def go_on(self) -> None:
        """End the stretch; the next mark charges only the time before and after it."""
        if self._paused is not None:
            (phase, since), self._paused = self._paused, None
            spent = self._clock() - since
            self._seconds[phase] = self._seconds.get(phase, 0.0) + spent
            self._last += spent

    def mark(self, phase: str) -> float:
        """Charge everything since the last mark to `phase`; return those seconds."""
        now = self._clock()
        spent, self._last = now - self._last, now
        self._seconds[phase] = self._seconds.get(phase, 0.0) + spent
        self.step[phase] = self.step.get(phase, 0.0) + spent
        return spent

    def move(self, seconds: float, phase: str, to: str) -> None:
        """Move at most `seconds` of a phase to another one, if marks cannot tell them apart."""
        for charged in (self._seconds, self.step):
            moved = min(seconds, charged.get(phase, 0.0))
            charged[phase] = charged.get(phase, 0.0) - moved
            charged[to] = charged.get(to, 0.0) + moved

    def elapsed(self) -> float:
        """Return the seconds since the process began the run."""
        return self._clock() - self.began

    def in_steps(self) -> float:
        """Return the seconds that steps took, with their waits for data and for other ranks."""
        rows = self.rows()
        return rows["data wait"] + rows["step"] + rows.get(_EXCHANGE, 0.0)

    def rows(self) -> dict[str, float]:
        """Return seconds by row of ROWS; they add up to the time until the last mark.

        With several ranks there is one more row, for waits for other ranks and for transfers.
        """
        waited = (_EXCHANGE,) if _EXCHANGE in self._seconds else ()
        rows = dict.fromkeys((*ROWS[:_AFTER], *waited, *ROWS[_AFTER:]), 0.0)
        for phase, seconds in self._seconds.items():
            row = _ROW_OF.get(phase, phase)
            rows[row if row in rows else "other"] += seconds
        return rows


@contextmanager
def recompiling(wall_time: WallTime) -> Iterator[None]:
    """Charge compilations in the block to "compile"; do nothing if torch does not report them.

    Source: torch._dynamo.callback (torch 2.13, 2026-11), which torch.distributed uses, too.
    """
    try:
        from torch._dynamo.callback import callback_handler as callbacks
    except ImportError:
        yield
        return

    def begin(*_: object) -> None:
        wall_time.pause("compile")

    def end(*_: object) -> None:
        wall_time.go_on()

    callbacks.register_start_callback(begin)
    callbacks.register_end_callback(end)
    try:
        yield
    finally:
        callbacks.remove_start_callback(begin)
        callbacks.remove_end_callback(end)
