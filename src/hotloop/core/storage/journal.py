"""Append-only files: a journal of JSON lines, and a byte file of known length."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hotloop.core.errors import WriteError
from hotloop.core.storage.files import DISK, Disk, cannot_write, naming

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.core.digest import Buffer

__all__ = ["Growing", "Journal"]

_READ_BYTES = 1 << 16


class Journal:
    """An append-only file of JSON lines. A torn last line is cut off at opening."""

    def __init__(self, path: Path, *, disk: Disk = DISK) -> None:
        self.path, self._disk = path, disk
        with naming(path):
            new = not path.exists()
            self._end = 0 if new else _end_of_lines(path)  # bytes of complete lines
            self._stream = self._open()
            if new:
                disk.fsync_folder(path.parent)
        self.had_lines = self._end > 0  # whether the file had complete lines at opening

    def _open(self) -> BinaryIO:
        stream = self.path.open("ab")
        if stream.seek(0, os.SEEK_END) > self._end:
            stream.truncate(self._end)
        self._end = stream.seek(0, os.SEEK_END)
        return stream

    def append(self, lines: Iterable[str], *, sync: bool = False) -> None:
        """Append complete lines and flush them; with `sync`, sync them to disk.

        Raises WriteError. The next call cuts off what a failed call left, so that a retry neither
        repeats a line nor continues a partial one.
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
        """Return the present path of its folder, also after a move; None if unknown."""
        try:
            there = Path(os.readlink(f"/proc/self/fd/{self._stream.fileno()}"))
            return there.parent if there.exists() else None  # "... (deleted)" for a removed file
        except (OSError, ValueError):  # not Linux; closed
            return None

    def close(self) -> None:
        """Close the file."""
        with naming(self.path):
            self._stream.close()


def _end_of_lines(path: Path) -> int:
    """Return the byte offset at which the last complete line of a file ends."""
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
    """An append-only file of bytes, from a length that is known to be correct."""

    def __init__(self, path: Path, length: int = 0, *, disk: Disk = DISK) -> None:
        """Open the file and cut off the bytes beyond `length`, which a killed process left."""
        self.path, self._disk = path, disk
        with naming(path):
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

    def append(self, data: Buffer) -> None:
        """Append and sync. Raises WriteError; the rest of a failed call is beyond `length`."""
        with naming(self.path):
            self._disk.write(self._stream, data)
            self._stream.flush()
            self._disk.fsync(self._stream.fileno())
        self.length += memoryview(data).nbytes

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # everything is synced, or append has raised
            self._stream.close()
