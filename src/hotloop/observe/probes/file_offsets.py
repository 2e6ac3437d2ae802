"""The read positions of this process's open files, which a forked child shares."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["offsets", "put_back", "shifted"]

_OPEN = Path("/proc/self/fd")
_File = tuple[int, int, int]  # descriptor, device and inode


def offsets() -> dict[_File, int]:
    """Return the position, in bytes, of each file that is open for reading only.

    Empty on systems that do not list open files (no /proc).
    """
    positions: dict[_File, int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(_OPEN):
            with contextlib.suppress(OSError):  # closed by now, as is the folder that was listed
                position = _position(int(name))
                positions.update([position] if position is not None else [])
    return positions


def _position(file: int) -> tuple[_File, int] | None:
    import fcntl

    status = os.fstat(file)
    only_read = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    if not only_read or not stat.S_ISREG(status.st_mode):
        return None
    return (file, status.st_dev, status.st_ino), os.lseek(file, 0, os.SEEK_CUR)


def shifted(before: Mapping[_File, int]) -> list[_File]:
    """Return the files that are still open and whose position has changed."""
    now = offsets()
    return [file for file, position in before.items() if now.get(file, position) != position]


def put_back(before: Mapping[_File, int]) -> None:
    """Move the files that a forked child has read back to their positions in `before`."""
    for file in shifted(before):
        os.lseek(file[0], before[file], os.SEEK_SET)
