"""Files that are only appended to: a journal of JSON lines, and bytes of a known length."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hotloop.core.errors import WriteError
from hotloop.core.storage.os_errors import DISK, Disk, cannot_write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.core.digest import Buffer

__all__ = ["Growing", "Journal"]

_READ_BYTES = 1 << 16


class Journal:
    """A file of JSON lines that is only appended to. A torn last line is cut off at opening."""

    def __init__(self, path: Path, *, disk: Disk = DISK) -> None:
        self.path, self._disk = path, disk
        try:
            new = not path.exists()
            self._end = 0 if new else _end_of_lines(path)  # bytes that were appended whole
            self._stream = self._open()
            if new:
                disk.fsync_folder(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from error
        self.had_lines = self._end > 0  # whether there were whole lines before this opening

    def _open(self) -> BinaryIO:
        stream = self.path.open("ab")
        if stream.seek(0, os.SEEK_END) > self._end:
            stream.truncate(self._end)
        self._end = stream.seek(0, os.SEEK_END)
        return stream

    def append(self, lines: Iterable[str], *, sync: bool = False) -> None:
        """Append whole lines and hand them to the system; with `sync`, to the platter.

        Raises WriteError. What a failed call left is cut off by the next one, so that a retry
        neither repeats a line nor continues half of one.
        """
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            if self._stream.closed:
                self._stream = self._open()
            self._disk.write(self._stream, data)
            self._stream.flush()
            if sync:
                self._disk.fsync(self._stream.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._stream.close()  # its buffer may hold a part of the lines
            raise cannot_write(self.path, error) from error
        self._end += len(data)

    def folder(self) -> Path | None:
        """Return where its folder is now, also after a move; None where the system cannot tell."""
        try:
            there = Path(os.readlink(f"/proc/self/fd/{self._stream.fileno()}"))
            return there.parent if there.exists() else None  # "... (deleted)" of a removed one
        except (OSError, ValueError):  # not Linux; closed
            return None

    def close(self) -> None:
        """Close the file."""
        try:
            self._stream.close()
        except OSError as error:
            raise cannot_write(self.path, error) from error


def _end_of_lines(path: Path) -> int:
    """Return where the last whole line of a file ends."""
    with path.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _READ_BYTES)
            stream.seek(start)
            newline = stream.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


class Growing:
    """A file of bytes that is only appended to, from a length that is known to be right."""

    def __init__(self, path: Path, length: int = 0, *, disk: Disk = DISK) -> None:
        """Open the file and cut off what is beyond `length`: a kill left it."""
        self.path, self._disk = path, disk
        try:
            self._stream = path.open("r+b" if length else "wb")
            have = self._stream.seek(0, os.SEEK_END)
            if have < length:
                self._stream.close()
                raise WriteError(
                    f"{path} has {have} bytes, {length} were written: it was changed by something "
                    "else; remove its folder and begin anew"
                )
            self._stream.truncate(length)
            self.length = self._stream.seek(length)
            disk.fsync_folder(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from error

    def append(self, data: Buffer) -> None:
        """Append to the platter. Raises WriteError; what a failed call left is beyond `length`."""
        try:
            self._disk.write(self._stream, data)
            self._stream.flush()
            self._disk.fsync(self._stream.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self.length += memoryview(data).nbytes

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # all of it is on the platter, or append has raised
            self._stream.close()
