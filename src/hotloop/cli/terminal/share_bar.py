"""One stacked line of block characters: shares of a whole, told apart without colour too."""

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
}
_OTHER = "#8d9199"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One row of the bar."""

    name: str
    seconds: float
    cells: int
    fill: str  # one character
    colour: str | None  # None: the console shows none

    @property
    def mark(self) -> Text:
        """Return what the row's part of the bar looks like, for a legend."""
        return Text(self.fill * 2, style=self.colour or "")


def segments(rows: Mapping[str, float], console: Console) -> list[Segment]:
    """Return rows of seconds as parts of a bar as wide as the console."""
    coloured = console.color_system is not None and not console.no_color
    # Neighbours differ by their filling where there is no colour.
    fills = "#=" if console.options.ascii_only else "\u2588" if coloured else "\u2593\u2591"
    cells = _cells(list(rows.values()), min(console.width, WIDEST))
    seen = 0  # parts that can be seen in the bar
    made = []
    for (name, seconds), wide in zip(rows.items(), cells, strict=True):
        made.append(
            Segment(
                name=name,
                seconds=seconds,
                cells=wide,
                fill=fills[seen % len(fills)],
                colour=_COLOURS.get(name, _OTHER) if coloured else None,
            )
        )
        seen += wide > 0
    return made


def bar(parts: Sequence[Segment]) -> Text:
    """Return the line: each part with its name in it, where there is room."""
    line = Text(no_wrap=True)
    for part in parts:
        word = part.name if len(part.name) + 2 <= part.cells else ""
        before = (part.cells - len(word)) // 2
        line.append(part.fill * before, style=part.colour or "")
        line.append(word, style=f"black on {part.colour}" if part.colour else "")
        line.append(part.fill * (part.cells - before - len(word)), style=part.colour or "")
    return line


def _cells(values: Sequence[float], width: int) -> list[int]:
    """Share out `width` columns by the largest remainder, so that they sum to it."""
    whole = sum(values)
    if not whole:
        return [0] * len(values)
    exact = [width * value / whole for value in values]
    cells = [int(part) for part in exact]
    by_rest = sorted(range(len(exact)), key=lambda n: cells[n] - exact[n])
    for n in by_rest[: width - sum(cells)]:
        cells[n] += 1
    return cells
