"""Derive the format, the split and the data set of a data file from its name."""

import re
from pathlib import PurePath

from hotloop.data.readers.formats import BY_SUFFIX
from hotloop.data.readers.split_words import SPLIT, split_word

__all__ = ["base_of", "format_of", "split_of"]

_PACKED = {".bz2": "bz2", ".gz": "gz", ".zst": "zst"}
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
    return split_word(_stem(name))


def base_of(name: str) -> str:
    """Return a file's name without suffix, split and shard: equal for all files of a data set."""
    stem = _SHARD.sub("", _stem(name))
    stem = re.sub(r"([-_.])[-_.]+", r"\1", SPLIT.sub("", stem, count=1))
    return stem.strip("-_. ")


def _stem(name: str) -> str:
    """Return the name without the suffixes that `format_of` reads."""
    path = PurePath(name)
    if path.suffix.lower() in _PACKED:
        path = PurePath(path.stem)
    return path.stem if path.suffix.lower() in BY_SUFFIX else path.name
