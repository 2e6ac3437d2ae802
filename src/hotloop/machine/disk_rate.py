"""Measures the write and read rates of a folder with one file, which is then removed."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.errors import WriteError
from hotloop.core.storage.files import free_bytes, write_file
from hotloop.core.units import bytes_
from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["DiskSpeed", "measure_disk"]

SIZE = 64 << 20  # bytes
ROOM = 16  # the free space must be this many times the size
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpeed:
    """Bytes per second, measured once; None with the reason in `why_not`."""

    size: int  # bytes of the file
    write: float | None = None  # until fsync returns
    read: float | None = None  # after the file was dropped from the page cache
    why_not: str | None = None


def measure_disk(
    folder: Path, *, size: int = SIZE, now: Callable[[], float] = clock, free: int | None = None
) -> DiskSpeed:
    """Write, sync, read and remove a file of `size` bytes in `folder`. `now`, `free` are seams."""
    room = free_bytes(folder) if free is None else free
    if room < ROOM * size:
        return DiskSpeed(size=size, why_not=f"only {bytes_(room)} are free")
    path = folder / f".tmp-disk-speed-{secrets.token_hex(4)}"  # a name that `files.sweep` removes
    data = secrets.token_bytes(BLOCK) * (size // BLOCK)  # random, so that it cannot be compressed
    try:
        began = now()
        write_file(path, data)
        took = now() - began
        read_rate, why_not = _read(path, now)
    except (WriteError, OSError) as error:
        return DiskSpeed(size=size, why_not=str(error))
    finally:
        path.unlink(missing_ok=True)
    return DiskSpeed(size=len(data), write=len(data) / took, read=read_rate, why_not=why_not)


def _read(path: Path, now: Callable[[], float]) -> tuple[float | None, str | None]:
    if not hasattr(os, "posix_fadvise"):
        return None, "reading: this system cannot take a file out of its page cache"
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began, size = now(), 0
        while block := file.read(BLOCK):
            size += len(block)
        return size / (now() - began), None
