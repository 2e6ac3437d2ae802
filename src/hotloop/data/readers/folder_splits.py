"""Tell the splits of files by the folders around them, and by names that libraries give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hotloop.data.readers.arrow import ARROW
from hotloop.data.readers.file_names import split_of
from hotloop.data.readers.split_words import is_split, split_word

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["split_around", "splits_by_libraries", "without_shard"]

_SHARD: Final = re.compile(r"-\d{5}-of-\d{5}(-\w+)?$")  # with a digest, as the hub has it


def without_shard(stem: str) -> str:
    """Return a file's name without the number of its shard."""
    return _SHARD.sub("", stem)


def splits_by_libraries(paths: Sequence[Path]) -> list[str | None]:
    """Return the splits in names that a library gave, where one of a folder is well known.

    unsupervised-00000-of-00001.parquet beside train-00000-of-00001.parquet is no file of train.
    """
    names = [_split_in_name(path) for path in paths]
    known = {
        path.parent
        for path, name in zip(paths, names, strict=True)
        if name is not None and is_split(name)
    }
    return [name if path.parent in known else None for path, name in zip(paths, names, strict=True)]


def _split_in_name(path: Path) -> str | None:
    """Return the split in the name of a shard of the hub, or of a file of `datasets`' cache."""
    name, count = _SHARD.subn("", path.stem)
    if (path.parent / "dataset_info.json").is_file() and path.suffix in ARROW.suffixes:
        return name.rpartition("-")[2]
    return name if count else None


def split_around(folder: Path, root: Path) -> str | None:
    """Return the split that a folder, or a folder around it up to `root`, is named after."""
    if (folder.parent / "dataset_dict.json").is_file():
        return split_of(folder.name) if is_split(folder.name) else folder.name
    for around in (folder, *folder.parents):
        if is_split(around.name):
            return split_of(around.name)
        if around == root:
            break
        if (named := split_word(around.name)) is not None and "train" in _splits_of(around.parent):
            return named
    return None


def _splits_of(folder: Path) -> frozenset[str | None]:
    """Return the splits that the names of a folder's folders tell."""
    return frozenset(split_word(path.name) for path in folder.iterdir() if path.is_dir())
