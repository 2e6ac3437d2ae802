"""Prints a temporary line on stderr with the current action, and indented facts."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.text import Text

from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from rich.console import Console

__all__ = ["facts", "telling"]

EVERY = 0.1  # seconds between two texts


@contextmanager
def telling(
    *, quiet: bool = False, stream: TextIO | None = None, every: float = EVERY
) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text; it shows nothing if stderr is not a terminal.

    The line is cleared at the end of the block, also after an error. `stream` and `every` are
    seams.
    """
    stream = stream or sys.stderr
    if quiet or not stream.isatty():
        yield lambda text: None
        return
    due = 0.0

    def tell(text: str) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + every
            room = max(1, shutil.get_terminal_size().columns - 1)
            print(f"\r\033[K{_cut(visible(text), room)}", end="", file=stream, flush=True)

    try:
        yield tell
    finally:
        print("\r\033[K", end="", file=stream, flush=True)


def facts(out: Console, *texts: str) -> None:
    """Print each text, wrapped and indented by two columns."""
    indent = "  " if out.width > 2 else ""
    for text in texts:
        for line in Text(text).wrap(out, out.width - len(indent), overflow="fold"):
            out.print(Text(indent).append(line))


def _cut(text: str, room: int) -> str:
    """Return a text, without its middle if it is longer than `room` columns."""
    if len(text) <= room:
        return text
    left = max(0, room - 3)
    end = text[len(text) - left // 2 :] if left > 1 else ""
    return f"{text[: left - left // 2]}...{end}"[:room]
