"""The values that readers share: formats, files of records, and portions that workers parse."""

from __future__ import annotations

from dataclasses import dataclass
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

Documents = Literal["file", "line", "blank"]  # one document of plain text: see RecordFile
Record = tuple[RowLocation, dict[str, Any]]

PORTION_BYTES = 2 << 20  # of one portion, unpacked, approximately


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of records; `format` is the name of one of readers.formats."""

    path: Path
    name: str  # in locations
    split: str  # train, valid, test, or the name of a folder of a DatasetDict
    format: str
    bytes: int  # on the disk
    documents: Documents = (
        "file"  # of plain text: the whole file, each line, or the text between blank lines
    )
    folder: str | None = None  # of plain text: the class, where each class has a folder of texts
    has_names: bool = True  # of a format with a header: False: the first row is data as well
    member: str | None = None  # of a JSON object that holds several lists: the key of this one
    beside: tuple[Path, ...] = ()  # further files that hold the other keys of each row

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return all files that the rows are in."""
        return self.path, *self.beside


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Records of a file that can be parsed without the others; holds plain values only."""

    file: str  # its path, which is only opened again if the format is columnar
    name: str  # in locations
    format: str
    documents: Documents = "file"
    folder: str | None = None  # of its RecordFile
    data: bytes = b""  # whole records as they are in the file; empty if it is columnar
    offset: int = 0  # of the portion in the unpacked file, bytes; 0 if unknown
    line: int = 1  # of the first byte of data
    column: int = 1  # of that byte in its line, from 1
    row: int = 0  # index of the first record in the file, if locations name it
    parts: tuple[int, int] = (
        0,
        0,
    )  # row groups or batches of a columnar file: first, one past last
    fields: tuple[str, ...] = ()  # names of the columns, if a header has them
    is_quoted: bool = True  # of delimited fields: quotes may enclose them
    is_first: bool = False  # plain text: the file's text begins with this portion
    is_last: bool = False  # plain text: the file's text ends with this portion
    fault: tuple[str, str, int] | None = None  # in place of records that cannot be read: kind, why,
    # and byte in `line`


class PortionCut(Protocol):
    """Cut a file into portions."""

    def __call__(
        self, source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
    ) -> Iterator[Portion]:
        """Yield portions of about `size` bytes, in order, without parsing them.

        A record of more than `longest` bytes is a portion with a fault. Raises DataError for a file
        that cannot be of its format, DeviceError if a package is missing.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of files of records."""

    name: str  # as --format takes it
    suffixes: tuple[str, ...]
    portions: PortionCut
    # Yields the records of a portion with their locations; bad rows are added to the faults.
    rows: Callable[[Portion, Faults], Iterator[Record]]
    # Returns the number of rows of an unpacked file, None if that is not cheap. Raises OSError,
    # ValueError, ImportError or counting.TooMuchError.
    count: Callable[[BinaryIO], int | None]
    count_cost: int = 1  # time, or memory, as a multiple of that of counting lines
    # In a folder only files of the lowest rank are read. If it is above 0, the name alone does not
    # show that a file holds data.
    rank: int = 0
    also: tuple[str, ...] = ()  # further suffixes, only for files that the user names
    no_data: Pattern[str] | None = None  # names with its suffix that are not data
    # Returns a file's format by its first bytes; None if the file holds no data set.
    sniff: Callable[[bytes], str | None] | None = None
    is_columnar: bool = False  # compressed only inside; a portion opens its file again
    has_header: bool = False  # the first row names the columns
    # Records are documents or pieces of them, with "text", "is_first" and "is_last".
    is_plain_text: bool = False


def of_blocks(source: RecordFile, blocks: Iterator[LineBlock], **same: Any) -> Iterator[Portion]:
    """Yield a portion for each block; `same` are further fields of all of them."""
    for block in blocks:
        yield Portion(
            file=str(source.path),
            name=source.name,
            format=source.format,
            documents=source.documents,
            folder=source.folder,
            data=block.data,
            offset=block.offset,
            line=block.line,
            fault=block.fault,
            **same,
        )
