"""Reads records of any format: cuts files into portions cheaply, and parses each by itself."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import Faults, RowLocation
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.portions import PORTION_BYTES
from hotloop.data.readers.sources import Sources, find_sources
from hotloop.data.readers.text_lines import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.data.readers.bad_rows import Policy
    from hotloop.data.readers.portions import Portion, Record, RecordFile

__all__ = ["Sources", "find_sources", "head", "rows", "work"]

_HEAD_BYTES = 1 << 16  # of a portion for a few records


def work(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield a file in portions of about `size` bytes unpacked, in order, without parsing them.

    Memory stays at a few times `size`, or the longest record; one of more than `longest` bytes is
    a portion with a fault, as is what a torn file lacks. Raises DataError for a file that is empty
    or cannot be what its format says, DeviceError when pyarrow is needed and missing.
    """
    found = False
    for portion in FORMATS[source.format].portions(source, size=size, longest=longest):
        columnar = portion.parts[1] > 0
        is_blank = not portion.data or portion.data.isspace()
        found = found or columnar or portion.fault is not None or not is_blank
        yield portion
    if not found:
        raise DataError(f"{source.name} is empty: it holds no record; fill it, or leave it out")


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield the records of a portion with their places; what is no record goes to `faults`."""
    if portion.fault is None:
        yield from FORMATS[portion.format].rows(portion, faults)
        return
    kind, why, byte = portion.fault
    place = (
        RowLocation(portion.name, row=portion.row)
        if FORMATS[portion.format].is_columnar
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
