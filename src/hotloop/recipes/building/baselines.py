"""Baselines that a trained model must beat: the majority class, and bags of words.

The bag of words is multinomial naive Bayes over the words and the pairs of neighbouring words of a
text, each counted once, with add-one smoothing. On short texts it is as good as a linear SVM (Wang,
Manning 2012, "Baselines and Bigrams", https://aclanthology.org/P12-2018). Words of the first and of
the second text of a pair are different features. The second text alone is tried too, because it
often reveals the label of a pair (Gururangan et al. 2018, https://aclanthology.org/N18-2017).
Features are hashed by CRC-32, so that memory does not grow with the data and the figures are the
same in every process. Features that occur in no training text are ignored, as in scikit-learn's
vectorisers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from hotloop.recipes.building.metrics import scores

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hotloop.recipes.building.metrics import Scores

__all__ = ["BAG_OF_WORDS", "MAJORITY", "SECOND_TEXT", "baselines"]

MAJORITY: Final = "majority class"
BAG_OF_WORDS: Final = "bag of words"
SECOND_TEXT: Final = "bag of words, second text only"

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_FEATURES: Final = 1 << 20  # hash buckets of one class at most
_TABLE: Final = 1 << 22  # hash buckets of all classes together at most: 32 MiB
_ROWS: Final = 4096  # rows whose features are in memory at once
_PRIME: Final = 0x9E3779B1  # Knuth's multiplicative hash: 2^32 / golden ratio, odd


def baselines(
    train_texts: Sequence[str] | Sequence[tuple[str, ...]],
    train_labels: NDArray[np.int64],
    test_texts: Sequence[str] | Sequence[tuple[str, ...]],
    test_labels: NDArray[np.int64],
    *,
    names: Sequence[str],
) -> dict[str, Scores]:
    """Train each baseline on the training rows, and return its scores on the test rows.

    A text is one string, or a tuple of the two texts of a pair; pairs add SECOND_TEXT. Labels are
    classes 0..len(names)-1, [rows].
    """
    assert len(train_texts) == len(train_labels) > 0, (len(train_texts), len(train_labels))
    assert len(test_texts) == len(test_labels), (len(test_texts), len(test_labels))
    class_counts = np.bincount(train_labels, minlength=len(names))
    predicted = {
        MAJORITY: np.full(len(test_labels), class_counts.argmax()),
        BAG_OF_WORDS: _Bayes(train_texts, train_labels, class_counts).predict(test_texts),
    }
    if not isinstance(train_texts[0], str):
        second = _Bayes([text[1] for text in train_texts], train_labels, class_counts)
        predicted[SECOND_TEXT] = second.predict([text[1] for text in test_texts])
    cells = {name: test_labels * len(names) + classes for name, classes in predicted.items()}
    return {
        name: scores(
            np.bincount(cell, minlength=len(names) ** 2).reshape(len(names), len(names)),
            names=names,
        )
        for name, cell in cells.items()
    }


class _Bayes:
    """Log probabilities of the classes and of each feature in them."""

    def __init__(
        self,
        texts: Sequence[str] | Sequence[tuple[str, ...]],
        labels: NDArray[np.int64],
        class_counts: NDArray[np.int64],
    ) -> None:
        classes = len(class_counts)
        self.buckets = min(_FEATURES, 1 << (_TABLE // classes).bit_length() - 1)
        counts = np.zeros((classes, self.buckets))
        for first, rows, features in _features(texts, self.buckets):
            np.add.at(counts.reshape(-1), labels[first + rows] * self.buckets + features, 1.0)
        unseen = ~counts.any(axis=0)
        whole = counts.sum(axis=1, keepdims=True) + np.count_nonzero(~unseen)
        counts += 1
        counts /= whole.clip(1)
        self.features = np.log(counts, out=counts)
        self.features[:, unseen] = 0
        with np.errstate(divide="ignore"):  # a class without a training row is never predicted
            self.classes = np.log(class_counts / class_counts.sum())

    def predict(self, texts: Sequence[str] | Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
        """Return the likeliest class of each text, [rows]."""
        best = np.empty(len(texts), np.int64)
        for first, rows, features in _features(texts, self.buckets):
            count = min(_ROWS, len(texts) - first)
            scored = [
                np.bincount(rows, weights=log_probabilities[features], minlength=count) + prior
                for log_probabilities, prior in zip(self.features, self.classes, strict=True)
            ]
            best[first : first + count] = np.argmax(scored, axis=0)
        return best


def _features(
    texts: Sequence[str] | Sequence[tuple[str, ...]], buckets: int
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield, for `_ROWS` texts at a time, the first text, and the row and feature of each pair.

    Rows count from the first text; a feature occurs once in a row.
    """
    for first in range(0, len(texts), _ROWS):
        hashes: list[int] = []
        ends, owners = [], []  # for each string: the end of its words, and the row it belongs to
        for number, text in enumerate(texts[first : first + _ROWS]):
            for part, text_part in enumerate((text,) if isinstance(text, str) else text):
                hashes += [_hashed(word, part) for word in _WORD.findall(text_part.lower())]
                ends.append(len(hashes))
                owners.append(number)
        words = np.array(hashes, np.uint64)
        string = np.searchsorted(ends, np.arange(len(words)), side="right")
        row = np.array(owners, np.int64)[string]
        is_pair = string[:-1] == string[1:]
        pairs = (words[:-1] * np.uint64(_PRIME) + words[1:])[is_pair]
        hashed = np.concatenate((words, pairs ^ (pairs >> np.uint64(32))))
        features = (hashed & np.uint64(buckets - 1)).astype(np.int64)
        keys = np.concatenate((row, row[:-1][is_pair])) * buckets + features
        keys.sort()  # 250,000 keys in 5 ms; np.unique hashes them, in 250 (numpy 2.4.6)
        different = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
        yield first, different // buckets, different % buckets


@lru_cache(maxsize=1 << 18)
def _hashed(word: str, part: int) -> int:
    return crc32(word.encode("utf-8", "surrogatepass"), part)
