"""The one module that writes files, so that a crash at any instant leaves old or new, never half.

Order of every write: temp beside the target, flush, fsync, rename, fsync the folder. A folder is
written file by file with a checksummed manifest (size and xxh3-128 of each file) and renamed whole.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import xxhash

from hotloop.core.digest import Buffer
from hotloop.core.errors import WriteError
from hotloop.core.storage.manifest import (
    MANIFEST,
    check_folder,
    hash_file,
    is_plain,
    read_json,
    read_manifest,
    sealed,
)
from hotloop.core.storage.os_errors import DISK, Disk, cannot_write

__all__ = [
    "DISK",
    "MANIFEST",
    "Disk",
    "add_files",
    "begin_folder",
    "cannot_write",
    "check_folder",
    "commit_folder",
    "drop",
    "finish_folder",
    "free_bytes",
    "leftovers",
    "make_folder",
    "probe_folder",
    "read_json",
    "read_manifest",
    "remove_folder",
    "sweep",
    "write_file",
    "write_folder",
    "write_json",
]

_TEMP, _GONE = ".tmp-", ".gone-"  # an unfinished write; a folder on its way out
_LEFT = re.compile(r"\.(?:tmp|gone)-.+-[0-9a-f]{8}")  # the names made with them
_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES)  # a folder; EACCES on Windows


def _beside(target: Path, prefix: str) -> Path:
    return target.parent / f"{prefix}{target.name}-{os.getpid()}-{secrets.token_hex(4)}"


def drop(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a folder as far as that can be done."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def _temp_for(target: Path) -> Iterator[Path]:
    """Name a temp beside `target`; whatever ends the block early, nothing half stays behind."""
    temp = _beside(target, _TEMP)
    try:
        yield temp
    except BaseException as error:  # also a signal, and the chunks' own error
        drop(temp)
        if isinstance(error, OSError):
            raise cannot_write(target, error) from error
        raise


def _write_synced(path: Path, chunks: Iterable[Buffer], disk: Disk) -> dict[str, object]:
    """Write a new file to the platter; return its size and hash."""
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
    """Make a folder and its parents durably; raise WriteError with the reason when that fails."""
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                disk.fsync_folder(folder.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def write_file(path: Path, data: bytes | str, *, disk: Disk = DISK) -> None:
    """Replace `path` by `data` at once and durably.

    Raises WriteError; the old file then stays, unless the sync of its folder was all that failed:
    then the new one is there whole, but a power loss may bring the old one back.
    """
    with _temp_for(path) as temp:
        _write_synced(temp, [data.encode() if isinstance(data, str) else data], disk)
        disk.rename(temp, path)
        disk.fsync_folder(path.parent)


def write_json(path: Path, value: object, *, disk: Disk = DISK) -> None:
    """Write `value` as indented JSON. Raises WriteError, and ValueError for NaN: JSON has none."""
    write_file(path, json.dumps(value, indent=1, allow_nan=False) + "\n", disk=disk)


def write_folder(
    target: Path, files: Mapping[str, Iterable[Buffer]], *, disk: Disk = DISK
) -> dict[str, object]:
    """Write a folder of files with a manifest, durably and all or nothing.

    `files` maps a plain name to the chunks of its content. Returns the manifest. A sound folder
    that is there already (another process was first) stays as it is; a broken one is moved aside
    to `<name>.broken-*`, for it is evidence. Raises WriteError; then nothing new has the name.
    """
    make_folder(target.parent, disk=disk)
    with _temp_for(target) as temp:
        temp.mkdir()
        return _commit(temp, target, _add(temp, files, disk), disk)


def begin_folder(target: Path, *, disk: Disk = DISK) -> Path:
    """Return a new hidden folder beside `target`, to be ended by `commit_folder` or `drop`."""
    make_folder(target.parent, disk=disk)
    temp = _beside(target, _TEMP)
    try:
        temp.mkdir()
    except OSError as error:
        raise cannot_write(target, error) from error
    return temp


def add_files(
    temp: Path, files: Mapping[str, Iterable[Buffer]], *, disk: Disk = DISK
) -> dict[str, dict[str, object]]:
    """Write files into a folder that was begun, durably; return their entries of the manifest.

    `files` maps a plain name to the chunks of its content. Raises WriteError.
    """
    try:
        return _add(temp, files, disk)
    except OSError as error:
        raise cannot_write(temp, error) from error


def commit_folder(
    temp: Path,
    target: Path,
    entries: Mapping[str, Mapping[str, object]],
    *,
    disk: Disk = DISK,
) -> dict[str, object]:
    """Seal a folder with the entries of its files and name it, as `write_folder` does."""
    try:
        return _commit(temp, target, entries, disk)
    except OSError as error:
        raise cannot_write(target, error) from error


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
    return manifest if _rename_into_place(temp, target, disk) else read_manifest(target)


def _rename_into_place(temp: Path, target: Path, disk: Disk) -> bool:
    """Rename a folder into place durably; False when a sound one is there already."""
    while True:
        try:
            disk.rename(temp, target)
            break
        except OSError as error:
            is_gone = error.errno != errno.EACCES and not os.path.lexists(
                target
            )  # another writer's
            if error.errno not in _IN_THE_WAY or not (is_gone or target.is_dir()):
                raise
        if not check_folder(target):
            drop(temp)
            disk.fsync_folder(target.parent)  # its writer may not have come to that yet
            return False
        aside = target.with_name(f"{target.name}.broken-{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):  # another writer moved it
            disk.rename(target, aside)
            if not check_folder(aside):  # another writer's, which came since
                disk.rename(aside, target)
    try:
        disk.fsync_folder(target.parent)
    except OSError:
        with contextlib.suppress(OSError):
            disk.rename(target, temp)  # what may not last must not look as if it did
        raise
    return True


def remove_folder(folder: Path, *, disk: Disk = DISK) -> None:
    """Remove a folder so that no half of it can be met under its name. A link goes alone."""
    try:
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink()
            return
        aside = _beside(folder, _GONE)
        disk.rename(folder, aside)
        disk.fsync_folder(folder.parent)  # else a power loss could bring the name back to a half
        shutil.rmtree(aside)
    except OSError as error:
        raise cannot_write(folder, error) from error


def sweep(parent: Path) -> list[str]:
    """Remove what crashed writers left in `parent`; return the names of what has gone.

    Only for a folder whose lock the caller holds: a living writer's temp would go too.
    """
    paths = leftovers(parent)
    for path in paths:
        drop(path)
    return [path.name for path in paths if not os.path.lexists(path)]


def leftovers(parent: Path) -> list[Path]:
    """Return what crashed writers left in `parent`, and what living ones have not finished."""
    return sorted(path for path in parent.glob(".*") if _LEFT.fullmatch(path.name))


def free_bytes(path: Path) -> int:
    """Return the bytes this user may still write on the file system of `path`."""
    return shutil.disk_usage(path).free


def probe_folder(folder: Path, *, disk: Disk = DISK) -> None:
    """Write, sync, read back and remove a small file; WriteError when any of it fails."""
    make_folder(folder, disk=disk)
    data = secrets.token_bytes(4096)
    with _temp_for(folder / "probe") as path:
        _write_synced(path, [data], disk)
        disk.fsync_folder(folder)
        if path.read_bytes() != data:
            raise WriteError(f"{folder} gave back other bytes than were written: check the disk")
        path.unlink()


def finish_folder(folder: Path, target: Path, *, disk: Disk = DISK) -> None:
    """Write the manifest of a folder of synced files, and rename it to `target` at once.

    Its files may stand one folder deep. Raises WriteError, also when something has the name.
    """
    try:
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
    except OSError as error:
        raise cannot_write(target, error) from error
