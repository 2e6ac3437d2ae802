"""Counts the rows of a data file exactly where that is cheap, and says nothing where it is not."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import mmap
import zlib
from typing import TYPE_CHECKING, Any

from hotloop.machine.file_storage import open_quietly

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from hotloop.data.discovery.results import DataFile

__all__ = ["ReadBudget", "count_rows"]

LARGEST = 64 << 20  # bytes of a file whose lines are counted, at some 240 MB/s of one core
ALL = 512 << 20  # bytes of all files that one search reads: 2 to 3 s
_COST = {"csv": 4, "json": 8, "tsv": 4}  # times as much time, or memory, as lines take
_PACKED = 4  # bytes that one of a compressed file may become
_LONGEST = 8 << 20  # bytes of one line: more is no line
_CHUNK = 1 << 20


class _TooMuchError(Exception):
    """There is more in a file than is read here."""


class ReadBudget:
    """Bytes that may still be read, and why the rows of some files are unknown."""

    def __init__(self, bytes: int = ALL) -> None:
        self.left = bytes
        self.faults: list[str] = []  # one a file that cannot be read
        self.without: set[str] = set()  # packages that would be needed

    def spend(self, bytes: int) -> None:
        """Take what reading a file costs; _TooMuchError when that is too much or no longer left."""
        if bytes > min(LARGEST, self.left):
            raise _TooMuchError
        self.left -= bytes


def count_rows(file: DataFile, budget: ReadBudget) -> int | None:
    """Return the rows of a file; None when that is not cheap, and with a fault in `budget` when
    it cannot be read.

    Blank lines are no rows, but of plain text they are, nor is the header of CSV and TSV; of JSON,
    the elements of the array, or of the one list of objects in it.
    """
    name, _, packed = file.format.partition(".")
    cost, columns = _COST.get(name, 1), name in ("arrow", "parquet")
    try:
        if not columns:
            budget.spend(file.bytes * cost * (_PACKED if packed else 1))
        with open_quietly(file.path) as stream:
            if columns:
                return _columns(name, stream)
            chunks = _at_most(_chunks(stream, packed), LARGEST // cost)
            if name == "json":
                return _elements(b"".join(chunks))
            lines = _lines(chunks)
            if name in ("csv", "tsv"):
                return _records(lines, "\t" if name == "tsv" else ",")
            return sum(1 for line in lines if name == "txt" or not line.isspace())
    except (_TooMuchError, csv.Error):  # the csv module has a limit for a field
        return None
    except ImportError as error:
        budget.without.add(str(error.name))
    except (OSError, ValueError, EOFError, RecursionError, zlib.error) as error:
        budget.faults.append(f"{file.path} cannot be read: {error}")
    return None


def _chunks(stream: BinaryIO, packed: str) -> Iterator[bytes]:
    unpacked: Any = stream
    if packed == "gz":
        unpacked = gzip.GzipFile(fileobj=stream)
    elif packed == "bz2":
        unpacked = bz2.BZ2File(stream)
    elif packed == "zst":
        import pyarrow

        unpacked = pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, "r"), "zstd")
    while chunk := unpacked.read(_CHUNK):
        yield chunk


def _at_most(chunks: Iterable[bytes], most: int) -> Iterator[bytes]:
    for chunk in chunks:
        most -= len(chunk)
        if most < 0:
            raise _TooMuchError
        yield chunk


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; LF, CR LF and CR end one."""
    rest = b""
    for chunk in chunks:
        whole = rest + chunk
        lines = whole.splitlines(keepends=True)
        if len(lines[-1]) > _LONGEST:
            raise _TooMuchError
        rest = lines.pop()  # even with an LF at its end: a CR may be half of a CR LF
        yield from lines
    if rest:
        yield rest


def _records(lines: Iterable[bytes], delimiter: str) -> int:
    text = (line.decode(errors="replace") for line in lines)
    rows = sum(1 for row in csv.reader(text, delimiter=delimiter) if row)
    return max(0, rows - 1)


def _elements(data: bytes) -> int | None:
    value = json.loads(data)
    if isinstance(value, list):
        return len(value)
    lists = [v for v in value.values() if _is_table(v)] if isinstance(value, dict) else []
    return len(lists[0]) if len(lists) == 1 else None


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _columns(name: str, stream: BinaryIO) -> int:
    """Return the rows of a Parquet or Arrow file from what stands around its data."""
    import pyarrow
    from pyarrow import ipc, parquet

    try:
        if name == "parquet":
            return int(parquet.ParquetFile(stream).metadata.num_rows)
        view = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        source = pyarrow.BufferReader(pyarrow.py_buffer(view))
        if view[:6] == b"ARROW1":
            reader = ipc.open_file(source)
            return sum(reader.get_batch(n).num_rows for n in range(reader.num_record_batches))
        return sum(batch.num_rows for batch in ipc.open_stream(source))
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from error
