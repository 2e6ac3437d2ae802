"""Changes a small text file, one process at a time, which is the basis of a lock."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from hotloop.core.errors import WriteError
from hotloop.core.storage.os_errors import naming

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["change_text"]

_TRIES, _WAIT = 200, 0.01  # attempts while another process holds the lock; seconds between


def change_text(path: Path, change: Callable[[str], str]) -> None:
    """Replace the text of a small file by `change` of it, one process at a time.

    A missing file is the empty text. The system's lock excludes other processes and ends with the
    process, so `change` may get a text that a kill cut off. An exception from `change` passes
    through, and the file stays. Raises WriteError, also if another process keeps the file locked.
    """
    with naming(path):
        for _ in range(_TRIES):
            with path.open("a+b") as stream, _locked(stream) as alone:
                if alone and _is_at(path, stream):
                    _change(path, stream, change)
                    return
            time.sleep(_WAIT)
    raise WriteError(f"{path} is kept locked by a process that does not go on: end that one")


def _change(path: Path, stream: BinaryIO, change: Callable[[str], str]) -> None:
    stream.seek(0)
    old = stream.read().decode(errors="replace")
    new = change(old)
    if new != old:
        stream.truncate(0)
        stream.write(new.encode())
        stream.flush()
    if not new:
        with contextlib.suppress(PermissionError):  # Windows: it is open, and stays empty
            path.unlink()


def _is_at(path: Path, stream: BinaryIO) -> bool:
    """Whether an open file still has its name: another process may have removed it."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _locked(stream: BinaryIO) -> Iterator[bool]:
    """Hold the system's lock on an open file; yield False if another process holds it."""
    try:
        _lock(stream, on=True)
    except (BlockingIOError, PermissionError):
        yield False
        return
    try:
        yield True
    finally:
        _lock(stream, on=False)  # closing is not enough: a forked child may have it open too


def _lock(stream: BinaryIO, *, on: bool) -> None:
    if sys.platform == "win32":
        stream.seek(1 << 30)  # a locked byte cannot be read: take one far behind the text
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK if on else msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB if on else fcntl.LOCK_UN)
