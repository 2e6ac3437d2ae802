"""Read records of any format: cut files into portions cheaply, and parse each portion by itself."""

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
    from collections.abc import Iterable, Iterator

    from hotloop.data.readers.bad_rows import Policy
    from hotloop.data.readers.portions import Portion, Record, RecordFile

__all__ = ["Sources", "find_sources", "head", "records", "rows", "work"]

_HEAD_BYTES = 1 << 16  # of a portion when only a few records are read


def work(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield a file in portions of about `size` bytes unpacked, in order, without parsing them.

    Memory stays at a few times `size`, or the longest record. A record of more than `longest` bytes
    is a portion with a fault, as is the lost rest of a torn file. Raises DataError for a file that
    is empty or cannot be of its format, DeviceError when pyarrow is needed and missing.
    """
    has_records = False
    for portion in FORMATS[source.format].portions(source, size=size, longest=longest):
        columnar = portion.parts[1] > 0
        is_blank = not portion.data or portion.data.isspace()
        has_records = has_records or columnar or portion.fault is not None or not is_blank
        yield portion
    if not has_records:
        raise DataError(f"{source.name} is empty: it holds no record; fill it, or leave it out")


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield the records of a portion with their locations; bad rows are added to `faults`."""
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


def records(sources: Iterable[RecordFile], faults: Faults) -> Iterator[Record]:
    """Yield the records of all files with their locations; bad rows are added to `faults`."""
    for source in sources:
        for portion in work(source):
            yield from rows(portion, faults)


def head(source: RecordFile, count: int, *, policy: Policy = "skip") -> list[Record]:
    """Return the first `count` sound records, or all if there are fewer.

    Under "replace" this includes records that are kept with U+FFFD. Raises DataError, with the bad
    rows, if there is none, and as `work` does.
    """
    faults = Faults(policy)
    sound = (record for part in work(source, size=_HEAD_BYTES) for record in rows(part, faults))
    first = list(islice(sound, count))
    if not first and faults.count:
        raise DataError(
            f"no row of {source.name} can be used: {faults}{faults.listed}; correct them"
        )
    return first
