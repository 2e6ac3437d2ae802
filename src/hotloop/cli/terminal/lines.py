"""What verbs share to show and keep results: consoles, tables, a temporary line, facts, JSON."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotloop.core.env import ENV
from hotloop.core.storage.files import write_json
from hotloop.core.units import ago
from hotloop.process.standard_streams import Steady
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO

__all__ = [
    "console",
    "console_of",
    "facts",
    "keep_json",
    "plain_table",
    "redraw",
    "since",
    "telling",
]

EVERY = 0.1  # seconds between two texts
WIDTH = 100  # columns of a report that goes to a file


def console_of(stream: TextIO, width: int) -> Console:
    """Return a console for a stream, `width` columns wide unless the stream is a terminal."""
    columns = None if stream.isatty() else width
    return Console(file=stream, no_color=ENV.no_color, highlight=False, width=columns)


def console(*, stdout: bool = False) -> Console:
    """Return the console of reports: stderr, as stdout belongs to the script, or stdout.

    A broken stderr must not change how the script ends.
    """
    return console_of(sys.stdout if stdout else cast("TextIO", Steady(sys.stderr)), WIDTH)


def keep_json(path: Path | None, value: object) -> None:
    """Write the requested JSON file, if any. Raises WriteError."""
    if path is not None:
        write_json(path, value)


def plain_table(*titles: str, right: str | None = None) -> Table:
    """Return a table without lines whose cells wrap; the column titled `right` is aligned right."""
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold", justify="right" if title == right else "left")
    return table


def since(when: float | None) -> str:
    """Return how long ago a time (seconds since 1970) was, or "unknown"."""
    return "unknown" if when is None else ago(max(0.0, time.time() - when))


def redraw(text: str = "", stream: TextIO | None = None) -> None:
    """Replace the temporary line of a terminal, stderr by default; without `text`, clear it."""
    print(f"\r\033[K{text}", end="", file=stream or sys.stderr, flush=True)


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

    def notify(text: str) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + every
            room = max(1, shutil.get_terminal_size().columns - 1)
            redraw(_cut(visible(text), room), stream)

    try:
        yield notify
    finally:
        redraw(stream=stream)


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
