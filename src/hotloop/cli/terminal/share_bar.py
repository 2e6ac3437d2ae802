"""Draws shares of a whole as one stacked line of block characters, readable without colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

__all__ = ["Segment", "bar", "segments"]

WIDEST = 100  # columns; a longer line shows nothing more

# The colours of the page's bar on a dark ground (report/page.css): black words stand on each.
_COLOURS = {
    "start": "#8d9199",
    "import": "#b3a58c",
    "data load": "#8d9199",
    "compile": "#9ad4f5",
    "data wait": "#e69f00",
    "prepare": "#9db4c6",
    "host to device": "#a3c465",
    "forward": "#2f8fcb",
    "backward": "#7fb7f0",
    "exchange": "#5fc4cf",
    "optimizer": "#b3a7ec",
    "host waits": "#f08b3e",
    "after step": "#c79a8b",
    "evaluate": "#1fb58c",
    "save": "#d79abb",
    "log": "#c9c46a",
    "idle": "#8d9199",
    "after training": "#b3a58c",
    # rows of the ledger that have no row of the wall time
    "compiling": "#9ad4f5",
    "waiting for data": "#e69f00",
    "waiting for the device": "#f08b3e",
    "exchanging": "#5fc4cf",
    "evaluating": "#1fb58c",
    "saving": "#d79abb",
    "logging": "#c9c46a",
    "dead": "#ff8f87",
    "padding": "#e58ab8",
    "repeated": "#e8956b",
    "recomputed": "#b3a7ec",
    "frozen": "#93b4e8",
    "moved": "#a3c465",
    "inefficient": "#7fb7f0",
    "useful": "#2f8fcb",
    "unaccounted": "#2f8fcb",
    "host": "#9db4c6",
}
_OTHER = "#8d9199"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One row of the bar."""

    name: str
    seconds: float
    cells: int
    fill: str  # one character
    colour: str | None  # None: the console has no colours

    @property
    def mark(self) -> Text:
        """The symbol of the segment for a legend."""
        return Text(self.fill * 2, style=self.colour or "")


def segments(rows: Mapping[str, float], console: Console) -> list[Segment]:
    """Return the segments of a bar as wide as the console, from rows of seconds."""
    coloured = console.color_system is not None and not console.no_color
    # Without colour, neighbours differ by their fill.
    fills = "#=" if console.options.ascii_only else "\u2588" if coloured else "\u2593\u2591"
    cells = _cells(list(rows.values()), min(console.width, WIDEST))
    seen = 0  # visible segments so far
    bar_segments = []
    for (name, seconds), width in zip(rows.items(), cells, strict=True):
        bar_segments.append(
            Segment(
                name=name,
                seconds=seconds,
                cells=width,
                fill=fills[seen % len(fills)],
                colour=_COLOURS.get(name, _OTHER) if coloured else None,
            )
        )
        seen += width > 0
    return bar_segments


def bar(bar_segments: Sequence[Segment]) -> Text:
    """Return the bar; each segment contains its name if there is room."""
    line = Text(no_wrap=True)
    for segment in bar_segments:
        word = segment.name if len(segment.name) + 2 <= segment.cells else ""
        before = (segment.cells - len(word)) // 2
        line.append(segment.fill * before, style=segment.colour or "")
        line.append(word, style=f"black on {segment.colour}" if segment.colour else "")
        line.append(segment.fill * (segment.cells - before - len(word)), style=segment.colour or "")
    return line


def _cells(values: Sequence[float], width: int) -> list[int]:
    """Distribute `width` columns in proportion to `values`, by the largest remainder."""
    whole = sum(values)
    if not whole:
        return [0] * len(values)
    exact = [width * value / whole for value in values]
    cells = [int(part) for part in exact]
    by_rest = sorted(range(len(exact)), key=lambda n: cells[n] - exact[n])
    for n in by_rest[: width - sum(cells)]:
        cells[n] += 1
    return cells
