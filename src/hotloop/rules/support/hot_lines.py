"""Lines of the project that take the time themselves, without a torch module below them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from hotloop.core.finding import SourceLocation
from hotloop.rules.support.data_wait import feeding
from hotloop.rules.tried import share_of_run

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Stack

__all__ = ["HotLine", "has_faster_form", "hot_line", "unexplained_line"]

_ROWS = ("prepare", "forward")  # with a loader, D28 and H18 name lines of the other rows
_MOST = 0.5  # of the share of a line
_LEAST = 0.25  # of the time
_MODULE = "nn/modules/module.py"


class HotLine(NamedTuple):
    """A line, its calling line, and its seconds."""

    place: SourceLocation
    caller: SourceLocation | None
    seconds: float


def hot_line(case: Case) -> HotLine | None:
    """Return the line with the most time in the steps, if that is at least a quarter."""
    loader = feeding(case)
    rows = (
        (*_ROWS, "data wait") if loader is None else _ROWS
    )  # without a loader, no other rule names the reading line
    seconds: dict[SourceLocation, float] = defaultdict(float)
    callers: dict[SourceLocation, SourceLocation | None] = {}
    for stack in case.stacks:
        if stack.row in rows and (place := _line(stack)) is not None:
            seconds[place] += stack.seconds
            callers.setdefault(place, _caller(stack, place))
    place = max(seconds, key=lambda place: seconds[place], default=None)
    if place is None or case.part(seconds[place]) < _LEAST:
        return None
    return HotLine(place, callers[place], seconds[place])


def unexplained_line(case: Case) -> HotLine | None:
    """Return the hot line, unless an experiment on it showed what it is."""
    hot = hot_line(case)
    if hot is None or has_faster_form(case, hot.place, case.part(hot.seconds)):
        return None
    return None if any(hot.place in one.places for one in case.experiments if one.row) else hot


def has_faster_form(case: Case, place: SourceLocation, share: float) -> bool:
    """Whether an experiment showed that what a line does is faster in another form.

    Of a library's call it must gain most of the line's share of the time.
    """
    return any(
        place in one.places
        and one.outcome == "gain"
        and (one.rewrites or share_of_run(case, one) >= _MOST * share)
        for one in case.experiments
        if one.rewrites or one.name in ("converted lists", "drawn rows")
    )


def _line(stack: Stack) -> SourceLocation | None:
    """Return the innermost own line, unless it calls a module."""
    for frame in stack.frames:
        if frame.own:
            return SourceLocation(file=frame.file, line=frame.line)
        if _MODULE in frame.file:
            return None
    return None


def _caller(stack: Stack, place: SourceLocation) -> SourceLocation | None:
    own = [SourceLocation(file=frame.file, line=frame.line) for frame in stack.frames if frame.own]
    return next((line for line in own if line != place), None)
