"""What there is to read: a file of records, and portions of it that worker processes parse."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from hotloop.data.readers.bad_rows import RowLocation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hotloop.data.readers.text_lines import LineBlock

__all__ = ["PORTION_BYTES", "Documents", "Format", "Portion", "Record", "RecordFile", "of_blocks"]

Format = Literal["jsonl", "json", "csv", "tsv", "parquet", "arrow", "txt"]
Documents = Literal["file", "line", "blank"]  # what one document of a txt file is
Record = tuple[RowLocation, dict[str, Any]]

PORTION_BYTES = 2 << 20  # about what one portion holds, unpacked


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of records."""

    path: Path
    name: str  # what places call it
    split: str  # train, valid, test, or the name of a folder of a DatasetDict
    format: Format
    bytes: int  # on the disk
    documents: Documents = "file"  # txt: a file, each line, or what stands between blank lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Records of a file that can be parsed without the others: plain values alone."""

    file: str  # its path, which is only opened again for parquet and arrow
    name: str  # what places call it
    format: Format
    documents: Documents = "file"
    data: bytes = b""  # whole records as they stand in the file; empty for parquet and arrow
    offset: int = 0  # where the portion begins in the unpacked file, bytes; 0: not known
    line: int = 1  # of the first byte of data
    column: int = 1  # of that byte in its line, from 1
    row: int = 0  # index of the first record in the file: json, parquet and arrow
    parts: tuple[int, int] = (0, 0)  # row groups of parquet, batches of arrow: first, one past last
    fields: tuple[str, ...] = ()  # names of the columns: csv and tsv
    is_first: bool = False  # txt: the text of the file begins with it
    is_last: bool = False  # txt: the text of the file ends with it
    fault: tuple[str, str, int] | None = None  # stands for records that cannot be had: kind, why,
    # and byte in `line`

    def plain(self) -> tuple[Any, ...]:
        """Return the values of the fields in order, all plain, for another process."""
        return tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def from_plain(cls, values: tuple[Any, ...]) -> Portion:
        """Return the portion whose `plain()` it is."""
        return cls(**{field.name: value for field, value in zip(fields(cls), values, strict=True)})


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
