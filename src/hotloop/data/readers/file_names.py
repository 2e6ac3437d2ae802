"""Derive the format, the split and the data set of a data file from its name."""

import re
from pathlib import PurePath

from hotloop.data.readers.formats import BY_SUFFIX

__all__ = ["base_of", "format_of", "is_split", "split_of"]

_PACKED = {".bz2": "bz2", ".gz": "gz", ".zst": "zst"}
# As in https://huggingface.co/docs/hub/datasets-file-names-and-splits (2026-11)
_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "val", "valid", "validation"), "validation"),
    **dict.fromkeys(("eval", "evaluation", "test", "testing"), "test"),
}
_SPLIT = re.compile(rf"(?<![^\W_])({'|'.join(_SPLITS)})(?![^\W_])", re.IGNORECASE)
_SHARD = re.compile(r"(?:^|[-_.])(?:\d+-of-\d+|0\d+|\d{5,})$")  # not wiki103, not 2024


def format_of(name: str) -> str | None:
    """Return the format of a file's name ("jsonl", "csv.gz", ...); None if it holds no data set."""
    path = PurePath(name)
    packed = _PACKED.get(path.suffix.lower())
    inner = BY_SUFFIX.get((PurePath(path.stem) if packed else path).suffix.lower())
    if inner is None or (packed and inner.is_columnar):
        return None
    if inner.no_data is not None and inner.no_data.fullmatch(name):
        return None
    return f"{inner.name}.{packed}" if packed else inner.name


def split_of(name: str) -> str | None:
    """Return train, validation or test by the first such word in a file's name, else None."""
    match = _SPLIT.search(_stem(name))
    return _SPLITS[match[1].lower()] if match else None


def is_split(folder: str) -> bool:
    """Return whether a folder is named like a split, and so belongs to its parent's data set."""
    return folder.lower() in _SPLITS


def base_of(name: str) -> str:
    """Return a file's name without suffix, split and shard: equal for all files of a data set."""
    stem = _SHARD.sub("", _stem(name))
    stem = re.sub(r"([-_.])[-_.]+", r"\1", _SPLIT.sub("", stem, count=1))
    return stem.strip("-_. ")


def _stem(name: str) -> str:
    """Return the name without the suffixes that `format_of` reads."""
    path = PurePath(name)
    if path.suffix.lower() in _PACKED:
        path = PurePath(path.stem)
    return path.stem if path.suffix.lower() in BY_SUFFIX else path.name
