"""Search folders for data sets, by file formats and by the folders that libraries leave there."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.storage.rundir import RunDir
from hotloop.data.discovery.library_caches import formats, hub, is_hub, made_folder
from hotloop.data.discovery.results import DataFile, DataSet
from hotloop.data.readers.file_names import base_of, format_of, split_of
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.split_words import is_split
from hotloop.machine.file_storage import open_quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["FolderScan", "search"]

DEPTH = 8  # levels of folders below the root
FOLDERS = 20_000  # at most, in one search
FILES = 500_000  # at most, in one search
SINGLES = 64  # files of one format in a folder; more of them are one data set
SYSTEM = frozenset({"/dev", "/proc", "/sys"})  # not on a disk, and full of links
PASSED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
_HEAD = 4096  # bytes of a file that are read to decide whether it holds records

_Key = tuple[Path, str, str]  # folder, base, format


@dataclass(slots=True)
class FolderScan:
    """Folders and files visited so far, so that none is visited twice, and notes for the user."""

    progress: Callable[[str], None] = lambda text: None
    notes: list[str] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)  # device and inode of folders
    folders: int = FOLDERS  # that may still be opened
    files: int = FILES

    def is_new(self, path: Path) -> bool:
        """Remember a folder or file; return False if it was met before, under any name."""
        status = path.stat()
        key = status.st_dev, status.st_ino
        new = key not in self.seen
        self.seen.add(key)
        return new


def search(root: Path, scan: FolderScan) -> list[DataSet]:
    """Return the data sets in the folder or file `root`, sorted by id.

    Links are followed, but no folder or file is visited twice. Hidden folders, run folders and
    folders of installed packages are skipped.
    """
    groups: dict[_Key, list[DataFile]] = defaultdict(list)
    sets: list[DataSet] = []
    try:
        if root.is_file():
            _take(root.parent, [root.name], groups, scan, root=root.parent)
        else:
            sets += _below(root, groups, scan)
    except OSError as error:
        scan.notes.append(f"{root} cannot be read: {error.strerror}")
    return sorted([*sets, *_grouped(groups)], key=lambda data_set: data_set.id)


def _below(root: Path, groups: dict[_Key, list[DataFile]], scan: FolderScan) -> Iterator[DataSet]:
    waiting, deep = [(root, 0)], []
    while waiting:
        folder, depth = waiting.pop()
        if scan.folders <= 0 or scan.files <= 0:
            scan.notes.append(f"{folder} and more was not read: --root looks there")
            return
        scan.folders -= 1
        scan.progress(f"looking into {folder}")
        try:
            if not scan.is_new(folder):
                continue
            folders, files = _entries(folder)
        except OSError as error:
            scan.notes.append(f"{folder} cannot be read: {error.strerror}")
            continue
        scan.files -= len(files)
        if is_hub(folders):
            yield from hub(folder, scan.notes.append)
        elif (data_set := made_folder(folder, files)) is not None:
            yield data_set
        elif not RunDir(folder).exists and "pyvenv.cfg" not in files:
            _take(folder, files, groups, scan, root=root)
            inner = [folder / name for name in folders if name not in PASSED and name[0] != "."]
            inner = [path for path in inner if str(path) not in SYSTEM]
            if depth < DEPTH:
                waiting += [(path, depth + 1) for path in reversed(inner)]
            else:
                deep += inner
    if deep:
        more = f" and {len(deep) - 1:,} more were" if len(deep) > 1 else " was"
        scan.notes.append(f"{deep[0]}{more} not read, too deep: --root looks there")


def _entries(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of folders and of regular files, links to them included."""
    folders, files = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
            except OSError:  # a loop of links
                continue
    return sorted(folders), sorted(files)


def _take(
    folder: Path,
    names: Iterable[str],
    groups: dict[_Key, list[DataFile]],
    scan: FolderScan,
    *,
    root: Path,
) -> None:
    """Add the data files of a folder to their groups."""
    home, split = folder, None
    while is_split(home.name):
        split = split_of(home.name)
        if home == root:
            break
        home = home.parent
    for name in names:
        path, format = folder / name, format_of(name)
        if format is None or name[0] == ".":
            continue
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                continue
            format = _of_content(path, format)
            if format is None or not scan.is_new(path):
                continue
        except OSError as error:
            scan.notes.append(f"{path} cannot be read: {error.strerror}")
            continue
        named = split_of(name) or split or "train"
        is_plain_text = FORMATS[format.partition(".")[0]].is_plain_text
        base = "" if is_plain_text else base_of(name)
        file = DataFile.of(path, status, split=named, format=format)
        groups[home, base, format].append(file)


def _of_content(path: Path, format: str) -> str | None:
    """Return the format of a file, checked by its first bytes; None if it holds no data set."""
    plain = FORMATS.get(format)
    if plain is None or plain.sniff is None:
        return format
    with open_quietly(path) as stream:
        return plain.sniff(stream.read(_HEAD))


def _grouped(groups: dict[_Key, list[DataFile]]) -> Iterator[DataSet]:
    """Yield data sets: a folder whose files belong together is one, else each file is."""
    homes: dict[Path, dict[tuple[str, str], list[DataFile]]] = defaultdict(dict)
    for (home, base, format), files in groups.items():
        homes[home][base, format] = files
    for home, inner in homes.items():
        merged: dict[tuple[str, str], list[DataFile]] = defaultdict(list)
        for (base, format), files in inner.items():
            same_format = sum(other == format for _, other in inner)
            merged["" if same_format > SINGLES else base, format] += files
        for (base, format), files in merged.items():
            yield _data_set(home, base, format, files, whole=len(merged) == 1)


def _data_set(home: Path, base: str, format: str, files: list[DataFile], *, whole: bool) -> DataSet:
    single = len(files) == 1 and (not whole or split_of(files[0].path.name) is None)
    path = files[0].path if single else home
    pattern = f"{base}*.{format}" if base else f"*.{format}"
    return DataSet(
        id=str(path if single or whole else home / pattern),
        path=path,
        kind="file" if single else "folder",
        format=formats(files),
        files=tuple(files),
        splits=dict.fromkeys(file.split for file in files),
        bytes=sum(file.bytes for file in files),
        last_used=max(file.used for file in files),
        whole=whole or single,
    )
