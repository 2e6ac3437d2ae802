"""The one module that writes files, so that a crash at any instant leaves old or new, never half.

Order of every write: temp beside the target, flush, fsync, rename, fsync the folder. A folder is
written file by file with a checksummed manifest (size and xxh3-128 of each file) and renamed whole.
Manifest history: schema 1 (2026-11) files, generation, check.
"""

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash

from hotloop.core.errors import DataError, WriteError

__all__ = [
    "DISK",
    "MANIFEST",
    "Disk",
    "Journal",
    "check_folder",
    "create_exclusive",
    "digest",
    "free_bytes",
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

MANIFEST = "MANIFEST.json"
SCHEMA = 1
_TEMP, _GONE = ".tmp-", ".gone-"  # an unfinished write; a folder on its way out
_READ_BYTES = 1 << 22

Buffer = bytes | bytearray | memoryview


def _fsync_folder(path: Path) -> None:
    if os.name == "nt":  # Windows has no folder handle to sync; rename is journalled by NTFS
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The system calls that writing needs. Tests hand in one that records or fails."""

    write: Callable[[BinaryIO, Buffer], object] = lambda stream, data: stream.write(data)
    fsync: Callable[[int], None] = os.fsync
    fsync_folder: Callable[[Path], None] = _fsync_folder
    rename: Callable[[Path, Path], None] = os.replace


DISK = Disk()


def digest(*parts: Buffer | str) -> str:
    """Return the xxh3-128 of the parts in hex: a fingerprint, not a protection against malice."""
    state = xxhash.xxh3_128()
    for part in parts:
        state.update(part.encode() if isinstance(part, str) else part)
    return state.hexdigest()


def _failed(path: Path, error: OSError) -> WriteError:
    hint = {
        errno.ENOSPC: "free some space or name another folder with --out",
        errno.EDQUOT: "the disk quota is used up: free some space or name another folder",
        errno.EROFS: "the file system is read-only: name another folder with --out",
        errno.EACCES: "no permission to write there: name another folder with --out",
        errno.EFBIG: "the file system or `ulimit -f` does not allow files of this size",
    }.get(error.errno or 0, "check the disk and try again")
    return WriteError(f"cannot write {path}: {error.strerror or error}; {hint}")


def _temp_beside(target: Path) -> Path:
    return target.with_name(f"{_TEMP}{target.name}-{os.getpid()}-{secrets.token_hex(4)}")


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


def make_folder(path: Path) -> Path:
    """Make a folder and its parents; raise WriteError with the reason when that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _failed(path, error) from error
    return path


def write_file(path: Path, data: bytes | str, *, disk: Disk = DISK) -> None:
    """Replace `path` by `data` at once and durably. Raises WriteError; the old file then stays."""
    temp = _temp_beside(path)
    try:
        _write_synced(temp, [data.encode() if isinstance(data, str) else data], disk)
        disk.rename(temp, path)
        disk.fsync_folder(path.parent)
    except OSError as error:
        temp.unlink(missing_ok=True)
        raise _failed(path, error) from error


def write_json(path: Path, value: object, *, disk: Disk = DISK) -> None:
    """Write `value` as indented JSON; NaN is refused because JSON has none."""
    write_file(path, json.dumps(value, indent=1, allow_nan=False) + "\n", disk=disk)


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"key stands twice: {', '.join(twice)}")
    return dict(pairs)


def read_json(path: Path) -> dict[str, object]:
    """Return the object in a JSON file; DataError names the file and the place of a fault."""
    try:
        value = json.loads(path.read_bytes(), object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} must hold one JSON object, not a {type(value).__name__}")
    return value


def _manifest_check(files: Mapping[str, object], generation: str) -> str:
    return digest(json.dumps([files, generation], sort_keys=True))


def write_folder(
    target: Path, files: Mapping[str, Iterable[Buffer]], *, disk: Disk = DISK
) -> dict[str, object]:
    """Write a folder of files with a manifest, durably and all or nothing.

    `files` maps a name to the chunks of its content. Returns the manifest. If `target` exists
    already (another process was first), it is left as it is. Raises WriteError.
    """
    temp = _temp_beside(target)
    try:
        temp.mkdir(parents=True)
        written = {name: _write_synced(temp / name, parts, disk) for name, parts in files.items()}
        generation = secrets.token_hex(8)
        manifest: dict[str, object] = {
            "schema": SCHEMA,
            "generation": generation,
            "files": written,
            "check": _manifest_check(written, generation),
        }
        _write_synced(temp / MANIFEST, [json.dumps(manifest, indent=1).encode()], disk)
        disk.fsync_folder(temp)
        if target.exists():
            shutil.rmtree(temp)
            return read_manifest(target)
        disk.rename(temp, target)
        disk.fsync_folder(target.parent)
    except OSError as error:
        shutil.rmtree(temp, ignore_errors=True)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and (target / MANIFEST).exists():
            return read_manifest(target)  # another process was first between the test and rename
        raise _failed(target, error) from error
    except BaseException:  # the chunks' own error, or a signal: nothing half stays behind
        shutil.rmtree(temp, ignore_errors=True)
        raise
    return manifest


def read_manifest(folder: Path) -> dict[str, object]:
    """Return a folder's manifest; DataError when it is missing, torn or of another schema."""
    try:
        manifest = read_json(folder / MANIFEST)
    except OSError as error:
        raise DataError(f"{folder} has no readable {MANIFEST}: {error.strerror}") from error
    files, generation = manifest.get("files"), manifest.get("generation")
    if manifest.get("schema") != SCHEMA:
        raise DataError(f"{folder / MANIFEST} has schema {manifest.get('schema')}, not {SCHEMA}")
    if not isinstance(files, dict) or not isinstance(generation, str):
        raise DataError(f"{folder / MANIFEST} lacks its list of files")
    if manifest.get("check") != _manifest_check(files, generation):
        raise DataError(f"{folder / MANIFEST} does not match its own checksum")
    return manifest


def check_folder(folder: Path) -> list[str]:
    """Return what is broken in a folder written by `write_folder`; an empty list means sound."""
    try:
        files = read_manifest(folder)["files"]
    except DataError as error:
        return [str(error)]
    assert isinstance(files, dict)
    broken = []
    for name, want in files.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != want["bytes"]:
                broken.append(f"{name} has {size} bytes, its manifest says {want['bytes']}")
            elif (have := _hash_file(path)) != want["xxh3_128"]:
                broken.append(f"{name} is damaged: xxh3-128 {have}, expected {want['xxh3_128']}")
        except FileNotFoundError:
            broken.append(f"{name} is missing")
        except OSError as error:
            broken.append(f"{name} cannot be read: {error.strerror}")
    return broken


def _hash_file(path: Path) -> str:
    state = xxhash.xxh3_128()
    with path.open("rb") as stream:
        while chunk := stream.read(_READ_BYTES):
            state.update(chunk)
    return state.hexdigest()


def remove_folder(folder: Path) -> None:
    """Remove a folder so that no half of it can be met under its name."""
    aside = folder.with_name(f"{_GONE}{folder.name}-{secrets.token_hex(4)}")
    try:
        os.replace(folder, aside)
        shutil.rmtree(aside)
    except OSError as error:
        raise _failed(folder, error) from error


def sweep(parent: Path) -> list[str]:
    """Remove what crashed writers left in `parent`; return the names.

    Only for a folder whose lock the caller holds: a living writer's temp would go too.
    """
    left = [p for p in parent.glob(".*") if p.name.startswith((_TEMP, _GONE))]
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return sorted(path.name for path in left)


def free_bytes(path: Path) -> int:
    """Return the bytes this user may still write on the file system of `path`."""
    return shutil.disk_usage(path).free


def probe_folder(folder: Path, *, disk: Disk = DISK) -> None:
    """Write, sync, read back and remove a small file; WriteError when any of it fails."""
    path, data = folder / f"{_TEMP}probe-{secrets.token_hex(4)}", secrets.token_bytes(4096)
    make_folder(folder)
    try:
        _write_synced(path, [data], disk)
        disk.fsync_folder(folder)
        if path.read_bytes() != data:
            raise WriteError(f"{folder} gave back other bytes than were written: check the disk")
    except OSError as error:
        raise _failed(folder, error) from error
    finally:
        path.unlink(missing_ok=True)


class Journal:
    """A file of JSON lines that is only appended to. A torn last line is cut off at opening."""

    def __init__(self, path: Path, *, disk: Disk = DISK) -> None:
        self.path, self._disk = path, disk
        self.had_lines = False  # whether there were whole lines before this opening
        try:
            self._stream = path.open("ab")
            self._cut_torn_line()
        except OSError as error:
            raise _failed(path, error) from error

    def _cut_torn_line(self) -> None:
        size = self._stream.seek(0, os.SEEK_END)
        with self.path.open("rb") as reader:
            end = size
            while end > 0:
                start = max(0, end - _READ_BYTES)
                reader.seek(start)
                newline = reader.read(end - start).rfind(b"\n")
                if newline >= 0:
                    end = start + newline + 1
                    break
                end = start
        if end != size:
            self._stream.truncate(end)
        self.had_lines = end > 0

    def append(self, lines: Iterable[str], *, sync: bool = False) -> None:
        """Append whole lines and hand them to the system; with `sync`, to the platter."""
        try:
            self._disk.write(self._stream, "".join(f"{line}\n" for line in lines).encode())
            self._stream.flush()
            if sync:
                self._disk.fsync(self._stream.fileno())
        except OSError as error:
            raise _failed(self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def create_exclusive(path: Path, data: str) -> bool:
    """Create a small file unless it exists; return whether this call made it."""
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(data)
    except FileExistsError:
        return False
    except OSError as error:
        raise _failed(path, error) from error
    return True
