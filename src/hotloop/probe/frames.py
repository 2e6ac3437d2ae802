"""Whose code a stack frame is from: the project's own, or a library's."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from typing import TYPE_CHECKING

from hotloop.core.finding import Place
from hotloop.core.observed import Frame

if TYPE_CHECKING:
    from types import CodeType, FrameType

__all__ = ["here", "is_own", "shown", "spot", "walk"]

DEEPEST = 24  # frames of a stack that are kept
_HOTLOOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib")),
    }
)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@functools.lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file is neither a library's, nor hotloop's, nor generated."""
    if file.startswith("<") and not file.startswith("<ipython"):
        return False
    if any(part in file for part in _PACKAGES):
        return False
    return not file.startswith((_HOTLOOP, *_LIBRARIES))


def walk(frame: FrameType | None) -> tuple[tuple[CodeType, int], ...]:
    """Return code and line of a stack, innermost first, hotloop's own frames left out."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith(_HOTLOOP):
            found.append((code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def shown(stack: tuple[tuple[CodeType, int], ...]) -> tuple[Frame, ...]:
    """Return a stack as facts."""
    return tuple(
        Frame(
            file=os.path.abspath(code.co_filename)
            if is_own(code.co_filename)
            else code.co_filename,
            line=line or code.co_firstlineno,
            function=code.co_qualname,
            own=is_own(code.co_filename),
        )
        for code, line in stack
    )


def here() -> Place | None:
    """Return the innermost line of the project's own code that is running in this thread."""
    found = spot()
    return found and Place(file=os.path.abspath(found[0]), line=found[1])


def spot() -> tuple[str, int] | None:
    """Return file and line of the same, for what is passed often."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_own(file := frame.f_code.co_filename):
            return file, frame.f_lineno
        frame = frame.f_back
    return None
