"""Lines of the script's code around a source location, made safe to print."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation

__all__ = ["excerpt", "quoted", "visible", "where"]

LONGEST = 240  # characters of a line of code; a longer line is data


def where(place: SourceLocation, here: str) -> str:
    """Return "data.py:41", relative to the folder `here` if that is shorter."""
    file = visible(place.file)
    if os.path.isabs(place.file):
        file = min(os.path.relpath(file, here), file, key=len)
    return file if place.line is None else f"{file}:{place.line}"


def excerpt(case: Case, place: SourceLocation, *, around: int) -> list[tuple[int, str]]:
    """Return (number, text) of the lines within `around` lines of a place; [] without source."""
    if place.line is None or place.file not in case.sources:
        return []
    lines = case.sources[place.file].splitlines()
    if not 1 <= place.line <= len(lines):
        return []
    first = max(1, place.line - around)
    near = lines[first - 1 : place.line + around]
    return [(number, _short(visible(text))) for number, text in enumerate(near, first)]


def quoted(case: Case, place: SourceLocation) -> str | None:
    """Return the line of code at a place, without its indent; None without source."""
    line = excerpt(case, place, around=0)
    return line[0][1].strip() if line else None


def visible(text: str) -> str:
    """Return text with its control and direction characters replaced by "?"."""
    plain = text.expandtabs(4)
    if plain.isprintable():
        return plain
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in plain)


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ... ({len(line):,} characters)"
