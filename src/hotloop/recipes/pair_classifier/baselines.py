"""Scores the baselines of a pair-classifier on rows of tokens and their classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import torch

from hotloop.data.sampling.token_rows import Form, TokenRows
from hotloop.recipes.building.baselines import baselines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from hotloop.data.sampling.labelled_rows import Labelled
    from hotloop.data.sampling.train_and_valid import Part
    from hotloop.data.tokenising.token_store import Store
    from hotloop.recipes.building.metrics import Scores

__all__ = ["MOST", "Tested", "row_baselines", "scores_text", "tested"]

MOST: Final = 10_000  # rows for training the bags of words, and for testing them: 1.4 s
_AT_ONCE: Final = 256  # rows in a batch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tested:
    """Rows of a split, and their classes."""

    store: Store
    split: str
    rows: NDArray[np.int64]
    classes: NDArray[np.int64]  # [rows]

    def some(self) -> Tested:
        """Return at most `MOST` of the rows, spread evenly."""
        every = -(-len(self.rows) // MOST)
        return replace(self, rows=self.rows[::every], classes=self.classes[::every])


def tested(data: Labelled, part: Part) -> Tested:
    """Return the rows of a part."""
    classes = part.columns["label"][part.rows]
    return Tested(store=data.store, split=part.split, rows=part.rows, classes=classes)


def row_baselines(train: Tested, test: Tested, *, names: Sequence[str]) -> dict[str, Scores]:
    """Train each baseline on the training rows, and return its scores on the test rows.

    Words are tokens. The texts of a pair are told apart by token types, where the tokenizer has
    them.
    """
    train_rows, test_rows = train.some(), test.some()
    train_pairs, test_pairs = _words(train_rows), _words(test_rows)
    if not any(second for _, second in train_pairs):  # single texts, or no types
        train_texts, test_texts = (
            [first for first, _ in pairs] for pairs in (train_pairs, test_pairs)
        )
        return baselines(
            train_texts, train_rows.classes, test_texts, test_rows.classes, names=names
        )
    return baselines(train_pairs, train_rows.classes, test_pairs, test_rows.classes, names=names)


def _words(tested: Tested) -> list[tuple[str, str]]:
    """Return the tokens of each row as words, the first text and the second text apart."""
    form, rows = Form(pad=0, layout="padded", has_labels=False), tested.rows
    samples = TokenRows(tested.store, tested.split, form=form, seed=0, shuffle=False, rows=rows)
    pairs = []
    for first in range(0, len(rows), _AT_ONCE):
        batch = rows[first : first + _AT_ONCE]
        tensors = samples.gather(batch).tensors
        ids = tensors["input_ids"]
        types = tensors.get("token_type_ids", torch.zeros_like(ids))
        for row, kind, length in zip(ids, types, samples.lengths[batch].tolist(), strict=True):
            is_second = kind[:length] == 1
            pairs.append((_text(row[:length][~is_second]), _text(row[:length][is_second])))
    return pairs


def _text(ids: Tensor) -> str:
    return " ".join(map(str, ids.tolist()))


def scores_text(scores: Mapping[str, Scores]) -> str:
    """Return the accuracy and macro F1 of each baseline as text."""
    return "; ".join(
        f"{name} {_figure(score.accuracy)} ({_figure(score.macro_f1)})"
        for name, score in scores.items()
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
