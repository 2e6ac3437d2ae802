"""Read a text file, plain or compressed, as blocks of whole lines in bounded memory."""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DataError, DeviceError
from hotloop.data.readers.clean_text import HEAD_BYTES, check_head, refuse

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "COMPRESSED",
    "LONGEST",
    "TOO_LONG",
    "TORN",
    "Ends",
    "LineBlock",
    "ReadWindow",
    "blocks",
    "line_ends",
    "need",
]

# Suffixes of compressed files, and the command that writes their content to its output.
COMPRESSED = {".gz": "gzip -dc", ".bz2": "bzip2 -dc", ".zst": "zstd -dc"}
LONGEST = 64 << 20  # bytes of one line or record; more is not a row of training data
TOO_LONG, TORN = "too long", "torn file"  # kinds of faults

_SIZE = 4 << 20
_PACKED_BYTES = 1 << 16  # of one read of a compressed file: the most that a later error can lose

Ends = Callable[[bytes, bool], int]  # (bytes, whether the file ends there) -> end of whole records


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Whole lines of a file or, with `fault`, the location of lines that cannot be read."""

    data: bytes  # each line ends with LF, for any line end in the file
    line: int  # of the first byte, from 1
    lines: int  # in the block
    offset: int  # of the first byte, in the file after decompression
    fault: tuple[str, str, int] | None = None  # kind, why, byte in `line` from 1


def need(module: str) -> Any:
    """Return pyarrow or a module of it; the DeviceError names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DeviceError(
            f"this kind of file needs a package that cannot be imported ({error}): "
            "pip install 'hotloop[data]'"
        ) from error


def line_ends(data: bytes, whole: bool) -> int:
    """Return the end of the last whole line, 0 for none: the `Ends` of one record a line."""
    return data.rfind(b"\n") + 1


def blocks(
    path: Path,
    *,
    size: int = _SIZE,
    longest: int = LONGEST,
    ends: Ends = line_ends,
) -> Iterator[LineBlock]:
    """Yield the file in blocks of whole records, of about `size` bytes, in order.

    `ends` returns where records end; it gets lines that end with LF. A UTF-8 byte order mark is
    dropped, CR LF and CR become LF, and a missing last LF is added, so these variants of a file
    give equal blocks. Memory stays at a few times the larger of `size` and the longest record. A
    record of more than `longest` bytes and the end of a torn compressed file are blocks with a
    fault. Raises DataError for a file that does not exist or is not text,
    DeviceError when pyarrow is needed and missing (.zst).
    """
    line = 1
    with ReadWindow(path) as window:
        while (block := _next_block(window, line, size, longest, ends)) is not None:
            yield block
            line += block.lines


class ReadWindow:
    """The part of a decompressed file in memory: filled at its end, taken from its start."""

    def __init__(self, path: Path) -> None:
        self.data = b""
        self.offset = 0  # of data[0] in the file
        self.whole = False  # the end has been read
        self.torn = ""  # why no more of a compressed file can be read
        self._path = path
        self._unpacked = False  # whether any byte was unpacked
        self._read: Callable[[int], bytes]
        try:
            self._file = path.open("rb", buffering=0)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            refuse(error if isinstance(error, OSError) else OSError(str(error)), path)
        try:
            self._begin(path.suffix.lower())
        except BaseException:
            self._file.close()
            raise

    def _begin(self, suffix: str) -> None:
        packed = suffix in COMPRESSED
        self._read = _unpacker(suffix, self._file) if packed else self._file.read
        self.fill(HEAD_BYTES)
        check_head(self._path, self.data[:HEAD_BYTES], unpack=COMPRESSED.get(suffix))
        self.take(len(codecs.BOM_UTF8) * self.data.startswith(codecs.BOM_UTF8))

    def __enter__(self) -> ReadWindow:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fill(self, size: int) -> None:
        """Read until there are `size` bytes, or the file ends."""
        pieces, have = [self.data], len(self.data)
        while have < size and not self.whole:
            fresh = self._more(size - have)
            pieces.append(fresh)
            have += len(fresh)
        if len(pieces) > 1:
            self.data = b"".join(pieces)

    def take(self, count: int) -> None:
        """Drop the first `count` bytes."""
        self.data = self.data[count:]
        self.offset += count

    def _more(self, size: int) -> bytes:
        try:
            fresh = self._read(size)
        except (EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                refuse(error, self._path)
            if not self._unpacked:
                raise DataError(
                    f"{self._path} cannot be unpacked ({error}), though it is named "
                    f"{self._path.suffix}: give it its right name, or fetch it again"
                ) from error
            fresh, self.torn = b"", f"cannot be unpacked any further: {error}"
        self._unpacked = self._unpacked or bool(fresh)
        self.whole = not fresh
        return fresh


def _unpacker(suffix: str, file: Any) -> Callable[[int], bytes]:
    """Return a function that reads at most so many unpacked bytes, and b"" at the end."""
    if suffix == ".zst":
        stream = need("pyarrow").input_stream(file, compression="zstd")
        return lambda size: bytes(stream.read(min(size, _PACKED_BYTES)))
    opened = gzip.GzipFile(fileobj=file) if suffix == ".gz" else bz2.BZ2File(file)
    return lambda size: opened.read1(min(size, _PACKED_BYTES))  # read() loses data before an error


def _next_block(
    window: ReadWindow, line: int, size: int, longest: int, ends: Ends
) -> LineBlock | None:
    offset, want = window.offset, size
    while True:
        window.fill(want + 1)
        raw = window.data[:want]  # no more, so that a block depends only on where it begins
        at_end = len(window.data) <= want
        text = _cleaned(raw, at_end and not window.torn)
        if cut := ends(text, at_end and not window.torn):
            lines = text.count(b"\n", 0, cut)
            window.take(_raw_length(raw, lines, cut))
            data = text if cut == len(text) else text[:cut]
            return LineBlock(data=data, line=line, lines=lines, offset=offset)
        if at_end or want >= longest:
            break
        want = min(2 * want, longest)
    if at_end and window.torn:
        return _torn_block(window, line)
    return None if at_end and not text else _unended_block(window, line, size, text)


def _cleaned(data: bytes, whole: bool) -> bytes:
    """Return the bytes with LF at the end of each line; a last CR may be half of a CR LF."""
    if b"\r" in data:
        data = data if whole else data.removesuffix(b"\r")
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data if not whole or not data or data.endswith(b"\n") else data + b"\n"


def _raw_length(data: bytes, lines: int, cut: int) -> int:
    """Return the length of the first lines in the file; `cut` is their length with LF."""
    if b"\r" not in data:
        return min(cut, len(data))
    return sum(map(len, data.splitlines(keepends=True)[:lines]))


def _torn_block(window: ReadWindow, line: int) -> LineBlock | None:
    """Return the block that stands for the end of a torn file, once."""
    why, window.torn = window.torn, ""
    rest = window.data
    window.take(len(rest))
    column = len(rest) - (rest.rfind(b"\n") + 1)
    line += rest.count(b"\n")
    fault = TORN, f"{why} ({window.offset} bytes unpacked); fetch it again", column + 1
    return LineBlock(data=b"", line=line, lines=0, offset=window.offset, fault=fault)


def _unended_block(window: ReadWindow, line: int, size: int, text: bytes) -> LineBlock:
    """Skip the first line of a record that does not end; return the block that stands for it."""
    offset = window.offset
    if b"\n" in text:
        window.take(_raw_length(window.data, 1, text.find(b"\n") + 1))
        why = "no record that begins here ends: a quote is not closed, or it is too long"
    else:
        _skip_line(window, size)
        why = f"a line of {window.offset - offset} bytes, more than can be one row; cut it"
    return LineBlock(data=b"", line=line, lines=1, offset=offset, fault=(TOO_LONG, why, 1))


def _skip_line(window: ReadWindow, size: int) -> None:
    while True:
        end = min((p for p in map(window.data.find, (b"\n", b"\r")) if p >= 0), default=-1)
        if end >= 0 and (window.whole or end + 1 < len(window.data)):
            return window.take(end + 1 + (window.data[end : end + 2] == b"\r\n"))
        if window.whole:
            return window.take(len(window.data))
        window.take(end if end >= 0 else len(window.data))
        window.fill(size + 1)
