"""The only module that writes files: a crash leaves the old or the new file, never a part.

Every write: temporary file beside the target, flush, fsync, rename, fsync of the folder. A folder
is written file by file with a checksummed manifest (size and xxh3-128 of each file), then renamed.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash

from hotloop.core.digest import Buffer
from hotloop.core.errors import DataError, WriteError
from hotloop.core.storage.manifest import (
    MANIFEST,
    check_folder,
    hash_file,
    is_plain,
    read_json,
    read_manifest,
    sealed,
)

__all__ = [
    "DISK",
    "MANIFEST",
    "Disk",
    "add_files",
    "begin_folder",
    "check_folder",
    "commit_folder",
    "drop",
    "finish_folder",
    "free_bytes",
    "leftovers",
    "make_folder",
    "naming",
    "probe_folder",
    "read_json",
    "read_manifest",
    "remove_folder",
    "sweep",
    "write_file",
    "write_folder",
    "write_json",
]

_TEMP, _GONE = ".tmp-", ".gone-"  # an unfinished write; a folder being removed
_LEFT = re.compile(r"\.(?:tmp|gone)-.+-[0-9a-f]{8}")  # names with these prefixes
_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES)  # a folder; EACCES on Windows
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


def _beside(target: Path, prefix: str) -> Path:
    return target.parent / f"{prefix}{target.name}-{os.getpid()}-{secrets.token_hex(4)}"


def drop(path: Path) -> None:
    """Remove a file, a link (not its target) or a folder; ignore errors."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def _temp_for(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`; remove it if the block raises."""
    temp = _beside(target, _TEMP)
    with naming(target):
        try:
            yield temp
        except BaseException:  # also a signal, or an error of the chunks
            drop(temp)
            raise


def _write_synced(path: Path, chunks: Iterable[Buffer], disk: Disk) -> dict[str, object]:
    """Write a new file and sync it to disk; return its size and hash."""
    size, state = 0, xxhash.xxh3_128()
    with path.open("xb") as stream:
        for chunk in chunks:
            disk.write(stream, chunk)
            state.update(chunk)
            size += memoryview(chunk).nbytes
        stream.flush()
        disk.fsync(stream.fileno())
    return {"bytes": size, "xxh3_128": state.hexdigest()}


def make_folder(path: Path, *, disk: Disk = DISK) -> Path:
    """Create a folder and its parents durably. Raises WriteError with the reason."""
    with naming(path):
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                disk.fsync_folder(folder.parent)
    return path


def write_file(path: Path, data: bytes | str, *, disk: Disk = DISK) -> None:
    """Replace `path` by `data` atomically and durably.

    Raises WriteError; the old file then stays, unless only the sync of its folder failed: then the
    new file is complete, but a power loss may restore the old one.
    """
    with _temp_for(path) as temp:
        _write_synced(temp, [data.encode() if isinstance(data, str) else data], disk)
        disk.rename(temp, path)
        disk.fsync_folder(path.parent)


def write_json(path: Path, value: object, *, disk: Disk = DISK) -> None:
    """Write `value` as indented JSON. Raises WriteError, and ValueError for NaN."""
    write_file(path, json.dumps(value, indent=1, allow_nan=False) + "\n", disk=disk)


def write_folder(
    target: Path, files: Mapping[str, Iterable[Buffer]], *, disk: Disk = DISK
) -> dict[str, object]:
    """Write a folder of files with a manifest, durably and atomically; return the manifest.

    `files` maps a plain name to the chunks of its content. An existing intact folder (another
    process was first) stays as it is; a broken one is renamed to `<name>.broken-*` as evidence.
    Raises WriteError; then the name is not taken by a new folder.
    """
    make_folder(target.parent, disk=disk)
    with _temp_for(target) as temp:
        temp.mkdir()
        return _commit(temp, target, _add(temp, files, disk), disk)


def begin_folder(target: Path, *, disk: Disk = DISK) -> Path:
    """Return a new hidden folder beside `target`; end it with `commit_folder` or `drop`."""
    make_folder(target.parent, disk=disk)
    temp = _beside(target, _TEMP)
    with naming(target):
        temp.mkdir()
    return temp


def add_files(
    temp: Path, files: Mapping[str, Iterable[Buffer]], *, disk: Disk = DISK
) -> dict[str, dict[str, object]]:
    """Write files durably into a folder from `begin_folder`; return their manifest entries.

    `files` maps a plain name to the chunks of its content. Raises WriteError.
    """
    with naming(temp):
        return _add(temp, files, disk)


def commit_folder(
    temp: Path,
    target: Path,
    entries: Mapping[str, Mapping[str, object]],
    *,
    disk: Disk = DISK,
) -> dict[str, object]:
    """Write the manifest of a folder with these entries and rename it, like `write_folder`."""
    with naming(target):
        return _commit(temp, target, entries, disk)


def _add(
    temp: Path, files: Mapping[str, Iterable[Buffer]], disk: Disk
) -> dict[str, dict[str, object]]:
    assert all(map(is_plain, files)), f"plain file names are needed, not {list(files)}"
    return {name: _write_synced(temp / name, chunks, disk) for name, chunks in files.items()}


def _commit(
    temp: Path, target: Path, entries: Mapping[str, Mapping[str, object]], disk: Disk
) -> dict[str, object]:
    manifest = sealed(entries)
    _write_synced(temp / MANIFEST, [json.dumps(manifest, indent=1).encode()], disk)
    disk.fsync_folder(temp)
    return _rename_into_place(temp, target, disk) or manifest


def _rename_into_place(temp: Path, target: Path, disk: Disk) -> dict[str, object] | None:
    """Rename a folder into place durably, or return the manifest of an intact one there."""
    while True:
        try:
            disk.rename(temp, target)
            break
        except OSError as error:
            if error.errno not in _IN_THE_WAY or not _may_be_replaced(target, error):
                raise
        if not check_folder(target):
            try:
                manifest = read_manifest(target)
            except DataError:  # another writer has just moved it
                continue
            drop(temp)
            disk.fsync_folder(target.parent)  # its writer may not have done that yet
            return manifest
        aside = target.with_name(f"{target.name}.broken-{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):  # another writer moved it
            disk.rename(target, aside)
            if not check_folder(aside):  # an intact one that another writer has created since
                _put_back(aside, target, disk)
    try:
        disk.fsync_folder(target.parent)
    except OSError:
        with contextlib.suppress(OSError):
            disk.rename(target, temp)  # a folder that may not last must not seem durable
        raise
    return None


def _may_be_replaced(target: Path, error: OSError) -> bool:
    """Return whether a folder is in the way, or was until another writer moved it."""
    try:
        mode = target.lstat().st_mode  # one look: another writer may move it between two
    except FileNotFoundError:
        return error.errno != errno.EACCES
    return target.is_dir() if stat.S_ISLNK(mode) else stat.S_ISDIR(mode)


def _put_back(aside: Path, target: Path, disk: Disk) -> None:
    """Rename an intact folder back, unless a third writer's is there by now."""
    try:
        disk.rename(aside, target)
    except OSError as error:
        if error.errno not in _IN_THE_WAY or not _may_be_replaced(target, error):
            raise
        drop(aside)


def remove_folder(folder: Path, *, disk: Disk = DISK) -> None:
    """Remove a folder such that its name never shows a part of it. Of a link, remove the link."""
    with naming(folder):
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink()
            return
        aside = _beside(folder, _GONE)
        disk.rename(folder, aside)
        disk.fsync_folder(folder.parent)  # else a power loss could restore a partial folder
        shutil.rmtree(aside)


def sweep(parent: Path) -> list[str]:
    """Remove what crashed writers left in `parent`; return the removed names.

    Only for a folder whose lock the caller holds: it removes a running writer's files too.
    """
    paths = leftovers(parent)
    for path in paths:
        drop(path)
    return [path.name for path in paths if not os.path.lexists(path)]


def leftovers(parent: Path) -> list[Path]:
    """Return the unfinished files and folders of crashed or running writers in `parent`."""
    return sorted(path for path in parent.glob(".*") if _LEFT.fullmatch(path.name))


def free_bytes(path: Path) -> int:
    """Return the bytes this user may still write on the file system of `path`."""
    return shutil.disk_usage(path).free


def probe_folder(folder: Path, *, disk: Disk = DISK) -> None:
    """Write, sync, read back and remove a small file. Raises WriteError if a step fails."""
    make_folder(folder, disk=disk)
    data = secrets.token_bytes(4096)
    with _temp_for(folder / "probe") as path:
        _write_synced(path, [data], disk)
        disk.fsync_folder(folder)
        if path.read_bytes() != data:
            raise WriteError(f"{folder} gave back other bytes than were written: check the disk")
        path.unlink()


def finish_folder(folder: Path, target: Path, *, disk: Disk = DISK) -> None:
    """Write the manifest of a folder of synced files, and rename the folder to `target`.

    Files may be one folder deep. Raises WriteError, also if the name is taken.
    """
    with naming(target):
        files = {
            path.relative_to(folder).as_posix(): {
                "bytes": path.stat().st_size,
                "xxh3_128": hash_file(path),
            }
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != MANIFEST
        }
        write_file(folder / MANIFEST, json.dumps(sealed(files), indent=1), disk=disk)
        disk.rename(folder, target)
        disk.fsync_folder(target.parent)
