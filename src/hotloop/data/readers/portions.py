"""What there is to read: a format, a file of records, and portions that workers parse."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hotloop.data.readers.bad_rows import RowLocation
from hotloop.data.readers.text_lines import LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from re import Pattern
    from typing import BinaryIO

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.text_lines import LineBlock

__all__ = [
    "PORTION_BYTES",
    "Documents",
    "Format",
    "Portion",
    "PortionCut",
    "Record",
    "RecordFile",
    "of_blocks",
]

Documents = Literal["file", "line", "blank"]  # what one document of a file of plain text is
Record = tuple[RowLocation, dict[str, Any]]

PORTION_BYTES = 2 << 20  # about what one portion holds, unpacked


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of records; `format` is the name of one of readers.formats."""

    path: Path
    name: str  # what places call it
    split: str  # train, valid, test, or the name of a folder of a DatasetDict
    format: str
    bytes: int  # on the disk
    documents: Documents = (
        "file"  # of plain text: a file, each line, or what stands between blank lines
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Records of a file that can be parsed without the others: plain values alone."""

    file: str  # its path, which is only opened again where the format is columnar
    name: str  # what places call it
    format: str
    documents: Documents = "file"
    data: bytes = b""  # whole records as they stand in the file; empty where it is columnar
    offset: int = 0  # where the portion begins in the unpacked file, bytes; 0: not known
    line: int = 1  # of the first byte of data
    column: int = 1  # of that byte in its line, from 1
    row: int = 0  # index of the first record in the file, where places name it
    parts: tuple[int, int] = (
        0,
        0,
    )  # row groups or batches of a columnar file: first, one past last
    fields: tuple[str, ...] = ()  # names of the columns, where a header has them
    is_first: bool = False  # of plain text: that of the file begins with it
    is_last: bool = False  # of plain text: that of the file ends with it
    fault: tuple[str, str, int] | None = None  # stands for records that cannot be had: kind, why,
    # and byte in `line`

    def plain(self) -> tuple[Any, ...]:
        """Return the values of the fields in order, all plain, for another process."""
        return tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def from_plain(cls, values: tuple[Any, ...]) -> Portion:
        """Return the portion whose `plain()` it is."""
        return cls(**{field.name: value for field, value in zip(fields(cls), values, strict=True)})


class PortionCut(Protocol):
    """Cuts a file into portions."""

    def __call__(
        self, source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
    ) -> Iterator[Portion]:
        """Yield portions of about `size` bytes, in order, without parsing them.

        A record of more than `longest` bytes is a portion with a fault. Raises DataError for a file
        that cannot be what its format says, DeviceError where a package is missing.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """All that is known of a format of files of records."""

    name: str  # as --format takes it
    suffixes: tuple[str, ...]
    portions: PortionCut
    # The records of a portion with their places; what is no record goes to the faults.
    rows: Callable[[Portion, Faults], Iterator[Record]]
    # The rows of an unpacked file, None where that is not cheap. Raises OSError, ValueError,
    # ImportError or counting.TooMuchError.
    count: Callable[[BinaryIO], int | None]
    count_cost: int = 1  # times as much time, or memory, as to count lines takes
    # Of a folder only files of the lowest rank are read. Above 0 a name alone does not say that a
    # file holds data.
    rank: int = 0
    also: tuple[str, ...] = ()  # suffixes of files that are taken for it only where they are named
    no_data: Pattern[str] | None = None  # names with its suffix that are no data
    # By its first bytes, the name of the format that a file with its suffix has; None: no data set.
    sniff: Callable[[bytes], str | None] | None = None
    is_columnar: bool = False  # compressed inside, if at all; a portion opens its file again
    # Documents, any of which may come in pieces: records with "text", "is_first" and "is_last".
    is_plain_text: bool = False


def of_blocks(source: RecordFile, blocks: Iterator[LineBlock], **same: Any) -> Iterator[Portion]:
    """Yield a portion for each block, with the same further fields."""
    for block in blocks:
        yield Portion(
            file=str(source.path),
            name=source.name,
            format=source.format,
            documents=source.documents,
            data=block.data,
            offset=block.offset,
            line=block.line,
            fault=block.fault,
            **same,
        )
