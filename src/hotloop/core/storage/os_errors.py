"""The system calls for writing, and the meaning of their errors."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hotloop.core.digest import Buffer
from hotloop.core.errors import WriteError

__all__ = ["DISK", "Disk", "cannot_write", "naming"]

# A file system that cannot sync a folder says so like this, and PostgreSQL goes on as well:
# https://github.com/postgres/postgres/blob/master/src/common/file_utils.c, fsync_fname (2026-11)
_NO_FOLDER_SYNC = (errno.EBADF, errno.EINVAL)


def _fsync_folder(path: Path) -> None:
    if os.name == "nt":  # Windows has no folder handle to sync; rename is journalled by NTFS
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The system calls for writing. Tests pass one that records or fails."""

    write: Callable[[BinaryIO, Buffer], object] = lambda stream, data: stream.write(data)
    fsync: Callable[[int], None] = os.fsync
    fsync_folder: Callable[[Path], None] = _fsync_folder
    rename: Callable[[Path, Path], None] = os.replace


DISK = Disk()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a WriteError that names `path`."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> WriteError:
    """Return the WriteError for a refused write, with the reason and a remedy."""
    hint = {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space or name another folder"),
        errno.EROFS: "name another folder",
        errno.EACCES: "get the permission to write there or name another folder",
        errno.EFBIG: "the file system or `ulimit -f` does not allow files of this size",
        errno.ENOENT: "make its folder first, or name another one",
        errno.EEXIST: "something else is in the way: move it or choose another name",
        errno.ENOTDIR: "a file is in the way of a folder: move it or choose another name",
        errno.EISDIR: "a folder is in the way: move it or choose another name",
        errno.ENAMETOOLONG: "choose a shorter name",
        **dict.fromkeys((errno.ENOLCK, errno.ENOSYS), "it has no locks: name another folder"),
    }.get(error.errno or 0, "check the disk and try again")
    return WriteError(f"cannot write {path}: {error.strerror or error}; {hint}")
