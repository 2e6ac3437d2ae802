"""Count the rows of a data file exactly where that is cheap; else return None."""

from __future__ import annotations

import bz2
import gzip
import zlib
from typing import TYPE_CHECKING, Any

from hotloop.data.readers.counting import TooMuchError
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.jsonlines import JSONL
from hotloop.machine.file_storage import open_quietly

if TYPE_CHECKING:
    from typing import BinaryIO

    from hotloop.data.discovery.results import DataFile
    from hotloop.data.readers.counting import ByteStream

__all__ = ["ReadBudget", "count_rows"]

LARGEST = 64 << 20  # bytes of a file whose lines are counted, at some 240 MB/s on one core
ALL = 512 << 20  # bytes that one search reads in all files: 2 to 3 s
_PACKED = 4  # assumed ratio of the decompressed to the compressed size


class ReadBudget:
    """The bytes that may still be read, and why the rows of some files are unknown."""

    def __init__(self, bytes: int = ALL) -> None:
        self.left = bytes
        self.faults: list[str] = []  # one for each file that cannot be read
        self.without: set[str] = set()  # packages that are needed and missing

    def spend(self, bytes: int) -> None:
        """Deduct the cost of a file. Raises TooMuchError if it is too much or more than is left."""
        if bytes > min(LARGEST, self.left):
            raise TooMuchError
        self.left -= bytes


def count_rows(file: DataFile, budget: ReadBudget) -> int | None:
    """Return the number of rows of a file; None if counting is not cheap or not possible.

    A file that cannot be read adds a fault to the budget. Blank lines do not count, except in plain
    text; nor does the header of CSV and TSV. For JSON, the rows are the elements of the array, or
    of the one list of objects in the file.
    """
    name, _, packed = file.format.partition(".")
    format = FORMATS.get(name, JSONL)  # an unknown format is counted by lines
    try:
        if not format.is_columnar:
            budget.spend(file.bytes * format.count_cost * (_PACKED if packed else 1))
        with open_quietly(file.path) as stream:
            if format.is_columnar:
                return format.count(stream)
            limited: Any = _Limited(_unpacked(stream, packed), LARGEST // format.count_cost)
            return format.count(limited)
    except TooMuchError:
        return None
    except ImportError as error:
        budget.without.add(str(error.name))
    except (OSError, ValueError, EOFError, RecursionError, zlib.error) as error:
        budget.faults.append(f"{file.path} cannot be read: {error}")
    return None


def _unpacked(stream: BinaryIO, packed: str) -> ByteStream:
    if packed == "gz":
        return gzip.GzipFile(fileobj=stream)
    if packed == "bz2":
        return bz2.BZ2File(stream)
    if packed == "zst":
        import pyarrow

        opened: ByteStream = pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, "r"), "zstd")
        return opened
    return stream


class _Limited:
    """A stream that raises TooMuchError after so many bytes."""

    def __init__(self, stream: ByteStream, most: int) -> None:
        self._stream, self._left = stream, most

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, none at the end."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise TooMuchError
        return data
