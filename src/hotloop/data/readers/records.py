"""Reads records of any format: cuts files into portions cheaply, and parses each by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError
from hotloop.data.readers import arrow, csv, json_array, jsonlines, prose
from hotloop.data.readers.bad_rows import Faults, RowLocation
from hotloop.data.readers.portions import PORTION_BYTES, of_blocks
from hotloop.data.readers.sources import Sources, find_sources
from hotloop.data.readers.text_lines import LONGEST, blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotloop.data.readers.bad_rows import Policy
    from hotloop.data.readers.portions import Portion, Record, RecordFile

__all__ = ["Sources", "find_sources", "head", "rows", "work"]

_HEAD_BYTES = 1 << 16  # of a portion for a few records

_ROWS: dict[str, Callable[[Portion, Faults], Iterator[Record]]] = {
    "jsonl": jsonlines.rows,
    "json": json_array.rows,
    "csv": csv.rows,
    "tsv": csv.rows,
    "parquet": arrow.rows,
    "arrow": arrow.rows,
    "txt": prose.rows,
}


def work(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield a file in portions of about `size` bytes unpacked, in order, without parsing them.

    Memory stays at a few times `size`, or the longest record; one of more than `longest` bytes is
    a portion with a fault, as is what a torn file lacks. Raises DataError for a file that is empty
    or cannot be what its format says, DeviceError when pyarrow is needed and missing.
    """
    found = False
    for portion in _portions(source, size, longest):
        columnar = portion.parts[1] > 0
        is_blank = not portion.data or portion.data.isspace()
        found = found or columnar or portion.fault is not None or not is_blank
        yield portion
    if not found:
        raise DataError(f"{source.name} is empty: it holds no record; fill it, or leave it out")


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield the records of a portion with their places; what is no record goes to `faults`."""
    if portion.fault is None:
        yield from _ROWS[portion.format](portion, faults)
        return
    kind, why, byte = portion.fault
    stored = portion.format in ("parquet", "arrow")
    place = (
        RowLocation(portion.name, row=portion.row)
        if stored
        else RowLocation(portion.name, portion.line, byte)
    )
    faults.add(place, kind, why)


def head(source: RecordFile, count: int, *, policy: Policy = "skip") -> list[Record]:
    """Return the first `count` records that are sound, or all where there are fewer.

    Under "replace" those count that stay with U+FFFD. Raises DataError, with the bad rows, where
    there is none, and as `work` does.
    """
    faults = Faults(policy)
    read = (record for part in work(source, size=_HEAD_BYTES) for record in rows(part, faults))
    found = list(islice(read, count))
    if not found and faults.count:
        raise DataError(
            f"no row of {source.name} can be used: {faults}{faults.listed}; correct them"
        )
    return found


def _portions(source: RecordFile, size: int, longest: int) -> Iterator[Portion]:
    if source.format in ("parquet", "arrow"):
        yield from arrow.portions(source, size=size)
    elif source.format in ("csv", "tsv"):
        yield from csv.portions(source, size=size, longest=longest)
    elif source.format == "txt":
        size = min(size, prose.PIECE_BYTES)
        yield from prose.portions(source, size=size, longest=longest)
    elif source.format == "json" and not json_array.is_lines(source.path):
        yield from json_array.portions(source, size=size, longest=longest)
    else:
        lines = replace(source, format="jsonl")
        yield from of_blocks(lines, blocks(source.path, size=size, longest=longest))
