"""Reads a text file, plain or compressed, as blocks of whole lines in bounded memory."""

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
LONGEST = 64 << 20  # bytes of one line or record: more than this is no row of training data
TOO_LONG, TORN = "too long", "torn file"  # kinds of faults

_SIZE = 4 << 20
_PACKED_BYTES = 1 << 16  # of one read from a compressed file: what is lost when the next one fails

Ends = Callable[[bytes, bool], int]  # (bytes, whether the file ends there) -> length of whole ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Whole lines of a file, or with `fault` the place of some that cannot be had."""

    data: bytes  # each line ends with LF, whatever it ends with in the file
    line: int  # of the first byte, from 1
    lines: int  # in the block
    offset: int  # of the first byte, in the file after decompression
    end: int  # where the next block begins, likewise
    fault: tuple[str, str, int] | None = None  # kind, why, byte in `line` from 1


def need(module: str) -> Any:
    """Return pyarrow or a module of it; DeviceError names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DeviceError(
            f"this kind of file needs a package that cannot be imported ({error}): "
            "pip install 'hotloop[data]'"
        ) from error


def line_ends(data: bytes, whole: bool) -> int:
    """Return where the last whole line ends, 0 for none: the `Ends` of one record a line."""
    return data.rfind(b"\n") + 1


def blocks(
    path: Path,
    *,
    size: int = _SIZE,
    longest: int = LONGEST,
    offset: int = 0,
    line: int = 1,
    ends: Ends = line_ends,
) -> Iterator[LineBlock]:
    """Yield the file in blocks of whole records, of about `size` bytes, in order.

    `ends` says where records end; it is given lines that end with LF. A UTF-8 byte order mark is
    dropped, CR LF and CR become LF, and a missing last LF is added, so these variants of a file
    give equal blocks. Memory stays at a few times the larger of `size` and the longest record. A
    record of more than `longest` bytes and the end of a torn compressed file are blocks with a
    fault. To go on after a block, give its `end` as `offset` and line + lines as `line`: the blocks
    are then those that would have come. Raises DataError for a file that is not there or not text,
    DeviceError when pyarrow is needed and missing (.zst).
    """
    with ReadWindow(path, offset=offset) as window:
        while (block := _next(window, line, size, longest, ends)) is not None:
            yield block
            line += block.lines


class ReadWindow:
    """The part of a decompressed file that is looked at: filled at its end, taken at its start."""

    def __init__(self, path: Path, *, offset: int = 0) -> None:
        self.data = b""
        self.offset = 0  # of data[0] in the file
        self.whole = False  # the end has been read
        self.torn = ""  # why there is no more to read of a compressed file
        self._path = path
        self._unpacked = False  # whether anything was
        self._read: Callable[[int], bytes]
        try:
            self._file = path.open("rb", buffering=0)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            refuse(error if isinstance(error, OSError) else OSError(str(error)), path)
        try:
            self._begin(path.suffix.lower(), offset)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, suffix: str, offset: int) -> None:
        packed = suffix in COMPRESSED
        self._read = _unpacker(suffix, self._file) if packed else self._file.read
        if offset == 0:
            self.fill(HEAD_BYTES)
            check_head(self._path, self.data[:HEAD_BYTES], unpack=COMPRESSED.get(suffix))
            self.take(len(codecs.BOM_UTF8) * self.data.startswith(codecs.BOM_UTF8))
        elif packed:
            self._pass(offset)
        else:
            self.offset = self._file.seek(offset)

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
        """Drop the first bytes."""
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

    def _pass(self, offset: int) -> None:
        while self.offset < offset:
            self.fill(min(_PACKED_BYTES, offset - self.offset))
            if not self.data:
                raise DataError(
                    f"{self._path} ends at byte {self.offset} (unpacked), before byte {offset} "
                    "where the reading was to go on; it has changed: begin again"
                )
            self.take(len(self.data))


def _unpacker(suffix: str, file: Any) -> Callable[[int], bytes]:
    """Return a function that reads at most so many unpacked bytes, and b"" at the end."""
    if suffix == ".zst":
        stream = need("pyarrow").input_stream(file, compression="zstd")
        return lambda size: bytes(stream.read(min(size, _PACKED_BYTES)))
    opened = gzip.GzipFile(fileobj=file) if suffix == ".gz" else bz2.BZ2File(file)
    return lambda size: opened.read1(min(size, _PACKED_BYTES))  # read() would lose what precedes


def _next(window: ReadWindow, line: int, size: int, longest: int, ends: Ends) -> LineBlock | None:
    offset, want = window.offset, size
    while True:
        window.fill(want + 1)
        seen = window.data[:want]  # no more, so that a block depends on where it begins alone
        ended = len(window.data) <= want
        text = _cleaned(seen, ended and not window.torn)
        if cut := ends(text, ended and not window.torn):
            lines = text.count(b"\n", 0, cut)
            window.take(_raw_length(seen, lines, cut))
            data = text if cut == len(text) else text[:cut]
            return LineBlock(data=data, line=line, lines=lines, offset=offset, end=window.offset)
        if ended or want >= longest:
            break
        want = min(2 * want, longest)
    if ended and window.torn:
        return _torn(window, line)
    return None if ended and not text else _unended(window, line, size, text)


def _cleaned(data: bytes, whole: bool) -> bytes:
    """Return the bytes with LF at the end of each line; a last CR may be half a CR LF."""
    if b"\r" in data:
        data = data if whole else data.removesuffix(b"\r")
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data if not whole or not data or data.endswith(b"\n") else data + b"\n"


def _raw_length(data: bytes, lines: int, cut: int) -> int:
    """Return the length of the first lines as they stand in the file; `cut` is that with LF."""
    if b"\r" not in data:
        return min(cut, len(data))
    return sum(map(len, data.splitlines(keepends=True)[:lines]))


def _torn(window: ReadWindow, line: int) -> LineBlock | None:
    """Return the block that stands for the end of a torn file, once."""
    why, window.torn = window.torn, ""
    rest = window.data
    window.take(len(rest))
    at = len(rest) - (rest.rfind(b"\n") + 1)
    line += rest.count(b"\n")
    fault = TORN, f"{why} ({window.offset} bytes unpacked); fetch it again", at + 1
    return LineBlock(
        data=b"", line=line, lines=0, offset=window.offset, end=window.offset, fault=fault
    )


def _unended(window: ReadWindow, line: int, size: int, text: bytes) -> LineBlock:
    """Pass the first line of a record that does not end; return the block that stands for it."""
    offset = window.offset
    if b"\n" in text:
        window.take(_raw_length(window.data, 1, text.find(b"\n") + 1))
        why = "no record that begins here ends: a quote is not closed, or it is too long"
    else:
        _pass_line(window, size)
        why = f"a line of {window.offset - offset} bytes, more than can be one row; cut it"
    return LineBlock(
        data=b"", line=line, lines=1, offset=offset, end=window.offset, fault=(TOO_LONG, why, 1)
    )


def _pass_line(window: ReadWindow, size: int) -> None:
    while True:
        at = min((p for p in map(window.data.find, (b"\n", b"\r")) if p >= 0), default=-1)
        if at >= 0 and (window.whole or at + 1 < len(window.data)):
            return window.take(at + 1 + (window.data[at : at + 2] == b"\r\n"))
        if window.whole:
            return window.take(len(window.data))
        window.take(at if at >= 0 else len(window.data))
        window.fill(size + 1)
