"""Find the split that a word of a name stands for."""

import re
from typing import Final

__all__ = ["SPLIT", "is_split", "split_word"]

# As in https://huggingface.co/docs/hub/datasets-file-names-and-splits (2026-11)
_SPLITS: Final = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "val", "valid", "validation"), "validation"),
    **dict.fromkeys(("eval", "evaluation", "test", "testing"), "test"),
}
# WMT's files to tune and to test on bear their year: newsdev2016, newstest2014.
_OF_YEARS: Final = {"newsdev": "validation", "newstest": "test"}
SPLIT: Final = re.compile(
    rf"(?<![^\W_])(?:({'|'.join(_SPLITS)})(?![^\W_])|({'|'.join(_OF_YEARS)})(?=\d{{4}}))",
    re.IGNORECASE,
)


def split_word(text: str) -> str | None:
    """Return train, validation or test by the first such word in a text, else None."""
    match = SPLIT.search(text)
    if match is None:
        return None
    return _SPLITS[match[1].lower()] if match[1] else _OF_YEARS[match[2].lower()]


def is_split(word: str) -> bool:
    """Return whether a whole word names a split."""
    return word.lower() in _SPLITS
