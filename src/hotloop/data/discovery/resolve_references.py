"""Resolve which data sets a word in a project's file means, and which one is missing."""

from __future__ import annotations

import fnmatch
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.data.discovery.library_caches import PACKAGED
from hotloop.data.discovery.project_references import SUFFIX
from hotloop.data.readers.file_names import base_of
from hotloop.data.readers.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.data.discovery.project_references import Word
    from hotloop.data.discovery.results import DataSet

__all__ = ["Index", "existing", "is_missing"]

LEAST = 16 << 10  # bytes: a smaller text file that code names is not data
_WEAK = tuple(suffix for format in FORMATS.values() if format.rank for suffix in format.suffixes)
_SET_KEY = re.compile(r"(hf_)?data_?set(_?(name|id|path))?", re.I)


class Index:
    """Data sets by the names that may refer to them."""

    def __init__(self, sets: Sequence[DataSet]) -> None:
        self._ids: dict[str, set[int]] = defaultdict(set)
        self._paths: dict[str, set[int]] = defaultdict(set)
        self._inside: dict[str, set[int]] = defaultdict(set)  # by the parent folder
        self._names: dict[str, set[int]] = defaultdict(set)  # by the bare name of a file
        for n, data_set in enumerate(sets):
            path = os.path.realpath(data_set.path)
            if data_set.kind in ("hub", "datasets-cache") and data_set.id not in PACKAGED:
                self._ids[data_set.id].add(n)
            if data_set.whole:
                self._paths[path].add(n)
            self._inside[os.path.dirname(path) if data_set.whole else path].add(n)
            for file in data_set.files:
                self._paths[os.path.realpath(file.path)].add(n)
                if base_of(file.path.name):  # any data set may have a train.jsonl
                    self._names[file.path.name].add(n)

    def named(self, word: Word, project: Path) -> set[int]:
        """Return the indices of the data sets that a word names; empty if it names none."""
        indices = set(self._ids.get(word.text, ()))
        if _is_pattern(word.text):
            for pattern in map(os.path.normpath, word.paths(project)):
                for path, sets in self._paths.items():
                    indices |= sets if fnmatch.fnmatchcase(path, pattern) else set()
            return indices
        paths = word.there(project) if "/" in word.text or word.is_data else []
        for path in paths:
            indices |= self._paths.get(path, set())
            if word.is_data:
                indices |= self._inside.get(path, set())
        if not indices and not paths:
            alike = self._names.get(word.text, set())
            indices |= alike if len(alike) == 1 else set()
        return indices


def _is_pattern(text: str) -> bool:
    return "*" in text and SUFFIX.search(text) is not None


def existing(words: Iterable[Word], project: Path) -> list[Path]:
    """Return the existing files and folders that words name as data."""
    paths: dict[str, None] = {}
    around = os.path.join(os.path.realpath(project), "")
    for word in words:
        for path in word.there(project) if word.is_data and not word.is_written else ():
            if os.path.isdir(path):
                if not around.startswith(os.path.join(path, "")):
                    paths[path] = None
            elif not _is_weak(path) or os.path.getsize(path) >= LEAST:
                paths[path] = None
    return list(map(Path, paths))


def is_missing(word: Word, project: Path) -> bool:
    """Return whether a word should name a data set here (a path, or an entry's) and does not."""
    if word.frame is None or word.is_key or word.is_written or not word.is_data:
        return False
    if not word.is_under_data and (_is_weak(word.text) or not SUFFIX.search(word.text)):
        return False
    is_path = "/" in word.text or SUFFIX.search(word.text) is not None
    is_set = bool(_SET_KEY.fullmatch(word.keys[-1])) and word.name is not None
    return (is_path or is_set) and not word.there(project)


def _is_weak(text: str) -> bool:
    """Return whether a file's name alone does not say that it holds data."""
    return text.lower().endswith(_WEAK)
