"""Finds out which line of the script gives the card work, or waits for it, in one step.

Python calls a function for each line that it runs. When the card's counters have moved since the
last call, the line before it did that: an operator, a hidden wait, or a call of a library. What
other threads do, such as the backward pass, falls to the line that waits for them.
"""

from __future__ import annotations

import linecache
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.case.rehearsal import CardLine
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import is_hotloop, is_own

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from hotloop.nullcard.counts import Ticks

__all__ = ["LineCounter", "code_at"]

_DEEPEST: Final = 200  # frames that are searched for a line of the project


def code_at(place: tuple[str, int] | None) -> str:
    """Return the line of code at a file and a line, without its indent; "" if it is not there."""
    return "" if place is None else linecache.getline(*place).strip()


class LineCounter:
    """Counts from `start` to `stop`, in the thread that calls them."""

    def __init__(self, ticks: Ticks) -> None:
        self._read = ticks.read
        self._counts: dict[tuple[str, int] | None, list[int]] = defaultdict(lambda: [0, 0])
        self._last = (0, 0)
        self._frame: FrameType | None = None  # that ran when the counters were read
        self._line = 0
        self._is_on = False
        self.why_not: str | None = None  # why nothing is counted

    def start(self) -> None:
        """Begin; in a process that is traced already, such as by a debugger, do nothing."""
        if sys.gettrace() is not None:
            self.why_not = "another tool traces the lines of this process"
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if not is_hotloop(frame.f_code.co_filename):
                frame.f_trace = self._traced
                if self._frame is None:
                    self._frame, self._line = frame, frame.f_lineno
            frame = frame.f_back
        self._last, self._is_on = self._read(), True
        sys.settrace(self._traced)

    def stop(self) -> None:
        """End, if it has begun; the frames that still run are traced no more."""
        if not self._is_on:
            return
        self._is_on = False
        sys.settrace(None)
        if self._read() != self._last:
            self._charge()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_trace == self._traced:
                frame.f_trace = None
            frame = frame.f_back
        self._frame = None

    def lines(self) -> tuple[CardLine, ...]:
        """Return the lines, those with the most waits and then the most launches first."""
        found = [
            CardLine(
                place=place and SourceLocation(file=place[0], line=place[1]),
                launches=launches,
                waits=waits,
                code=code_at(place),
            )
            for place, (launches, waits) in list(self._counts.items())
        ]
        return tuple(sorted(found, key=lambda one: (-one.waits, -one.launches)))

    def _traced(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if self._read() != self._last:
            self._charge()
        if event == "return":
            self._frame = frame.f_back
            self._line = 0 if frame.f_back is None else frame.f_back.f_lineno
        else:
            self._frame, self._line = frame, frame.f_lineno
        return self._traced

    def _charge(self) -> None:
        """Charge what the counters have moved by to the line that ran last."""
        now = self._read()
        counts = self._counts[self._place()]
        for at in range(2):
            counts[at] += now[at] - self._last[at]
        self._last = now

    def _place(self) -> tuple[str, int] | None:
        frame, line = self._frame, self._line
        for _ in range(_DEEPEST):
            if frame is None:
                break
            if is_own(frame.f_code.co_filename):
                return frame.f_code.co_filename, line
            frame = frame.f_back
            line = 0 if frame is None else frame.f_lineno
        return None
