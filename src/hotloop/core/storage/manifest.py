"""Reads strict JSON, and checks a folder against its manifest from storage.files.

Manifest history: schema 1 (2026-11) files (bytes and xxh3_128 of each), generation, check.
"""

import json
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import xxhash

from hotloop.core.digest import digest
from hotloop.core.errors import DataError

__all__ = [
    "MANIFEST",
    "SCHEMA",
    "check_folder",
    "hash_file",
    "is_inside",
    "is_plain",
    "manifest_check",
    "read_json",
    "read_manifest",
    "sealed",
]

MANIFEST = "MANIFEST.json"
SCHEMA = 1
_READ_BYTES = 1 << 22


def is_plain(name: object) -> bool:
    """Whether a name is a plain file name on every system."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\:\0")


def is_inside(name: object) -> bool:
    """Whether a name is, on every system, that of a file in the folder or one folder deeper."""
    return isinstance(name, str) and all(map(is_plain, name.split("/"))) and name.count("/") < 2


def sealed(files: Mapping[str, object]) -> dict[str, object]:
    """Return the manifest of files: bytes and xxh3_128 of each, and its own checksum."""
    generation = secrets.token_hex(8)
    return {
        "schema": SCHEMA,
        "generation": generation,
        "files": files,
        "check": manifest_check(files, generation),
    }


def manifest_check(files: Mapping[str, object], generation: str) -> str:
    """Return the checksum of a manifest's own contents."""
    return digest(json.dumps([files, generation], sort_keys=True))


def read_json(path: Path) -> dict[str, object]:
    """Return the object in a JSON file. Raises DataError with the file and the fault."""
    try:
        return _parse(path, path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _parse(path: Path, data: bytes) -> dict[str, object]:
    try:
        value = json.loads(
            data, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} must hold one JSON object, not a {type(value).__name__}")
    return value


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value: dict[str, object] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"key stands twice: {key}")
        value[key] = item
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def read_manifest(folder: Path) -> dict[str, object]:
    """Return a folder's manifest. Raises DataError if it is missing, torn or of another schema.

    Its names are those of files in the folder; its entries have bytes (int) and xxh3_128 (str).
    """
    path = folder / MANIFEST
    try:
        manifest = _parse(path, path.read_bytes())
    except OSError as error:
        raise DataError(f"{folder} has no readable {MANIFEST}: {error.strerror}") from error
    files, generation = manifest.get("files"), manifest.get("generation")
    if manifest.get("schema") != SCHEMA:
        raise DataError(f"{path} has schema {manifest.get('schema')}, this version reads {SCHEMA}")
    if not isinstance(files, dict) or not isinstance(generation, str):
        raise DataError(f"{path} lacks its list of files")
    if manifest.get("check") != manifest_check(files, generation):
        raise DataError(f"{path} does not match its own checksum")
    for name, entry in files.items():
        if not is_inside(name):
            raise DataError(f"{path} names {name!r}, which is no file in its folder")
        if not _is_entry(entry):
            raise DataError(f"{path} lacks the size and xxh3-128 of {name}")
    return manifest


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("bytes")) is int
        and isinstance(entry.get("xxh3_128"), str)
    )


def check_folder(folder: Path) -> list[str]:
    """Return the faults of a folder that `write_folder` wrote; [] if it is intact."""
    try:
        files = read_manifest(folder)["files"]
    except DataError as error:
        return [str(error)]
    assert isinstance(files, dict)
    return [fault for name, want in files.items() if (fault := _fault(folder, name, want))]


def _fault(folder: Path, name: str, want: Mapping[str, Any]) -> str | None:
    """Return the fault of one file, or None. Links and devices are refused without reading."""
    path = folder / name
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or (path.parent != folder and path.parent.is_symlink()):
            return f"{name} is not a plain file"
        if status.st_size != want["bytes"]:
            return f"{name} has {status.st_size} bytes, its manifest says {want['bytes']}"
        if (have := hash_file(path)) != want["xxh3_128"]:
            return f"{name} is damaged: xxh3-128 {have}, expected {want['xxh3_128']}"
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    return None


def hash_file(path: Path) -> str:
    """Return the xxh3-128 of a file's bytes in hex."""
    state = xxhash.xxh3_128()
    with path.open("rb") as stream:
        while chunk := stream.read(_READ_BYTES):
            state.update(chunk)
    return state.hexdigest()
