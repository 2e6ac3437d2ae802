"""What ended a script before its end: an exception that it did not catch, or an exit code."""

from __future__ import annotations

from traceback import walk_tb
from typing import TYPE_CHECKING

from hotloop.core.case.environment import Raised
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import is_own
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["raised"]

_LONGEST = 200  # characters of what an exception says


def raised(error: BaseException | None) -> Raised | None:
    """Return what ended the script; None for its last line, hotloop, or Ctrl-C."""
    if error is None or isinstance(error, KeyboardInterrupt):
        return None
    if isinstance(error, SystemExit):
        if error.code in (None, 0):  # launch.Stopped has 0
            return None
        text = f"exit code {error.code}" if isinstance(error.code, int) else str(error.code)
    else:
        text = str(error)
    first = text.strip().partition("\n")[0][:_LONGEST]
    return Raised(kind=type(error).__name__, text=first, place=_place(error.__traceback__))


def _place(trace: TracebackType | None) -> SourceLocation | None:
    """Return the innermost line of the project's own code."""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(trace)]
    own = [SourceLocation(file=file, line=line) for file, line in lines if is_own(file)]
    return own[-1] if own else None


hide(globals())
