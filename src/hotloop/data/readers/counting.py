"""Read the bytes of an unpacked file in bounded memory, for formats that count its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ByteStream", "TooMuchError", "chunks", "lines"]

_LONGEST = 8 << 20  # bytes of one line; more means that the file has no lines
_CHUNK = 1 << 20


class TooMuchError(Exception):
    """A file holds more than is read here."""


class ByteStream(Protocol):
    """A stream to read a file from."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, none at the end. May raise TooMuchError."""


def chunks(stream: ByteStream) -> Iterator[bytes]:
    """Yield the bytes of a stream."""
    while chunk := stream.read(_CHUNK):
        yield chunk


def lines(stream: ByteStream) -> Iterator[bytes]:
    """Yield lines with their ends (LF, CR LF or CR). Raises TooMuchError for a line too long."""
    rest = b""
    for chunk in chunks(stream):
        data = rest + chunk
        complete = data.splitlines(keepends=True)
        if len(complete[-1]) > _LONGEST:
            raise TooMuchError
        rest = complete.pop()  # even with an LF at its end: a CR may be half of a CR LF
        yield from complete
    if rest:
        yield rest
