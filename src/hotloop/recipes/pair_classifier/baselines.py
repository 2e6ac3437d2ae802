"""What a pair-classifier must beat on some rows, by what it is told of them: classes and tokens."""

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

__all__ = ["MOST", "Tested", "row_baselines", "said", "tested"]

MOST: Final = 10_000  # rows that the bags of words learn of, and are tried on: 1.4 s
_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tested:
    """Rows of a split, and their classes."""

    store: Store
    split: str
    rows: NDArray[np.int64]
    classes: NDArray[np.int64]  # [rows]

    def some(self) -> Tested:
        """Return `MOST` of them at most, spread evenly."""
        every = -(-len(self.rows) // MOST)
        return replace(self, rows=self.rows[::every], classes=self.classes[::every])


def tested(data: Labelled, part: Part) -> Tested:
    """Return the rows of a part."""
    classes = part.columns["label"][part.rows]
    return Tested(store=data.store, split=part.split, rows=part.rows, classes=classes)


def row_baselines(train: Tested, test: Tested, *, names: Sequence[str]) -> dict[str, Scores]:
    """Return the scores on the test rows of each baseline, learned of the training rows.

    Words are tokens; the two texts of a pair are known apart where the model's tokens have types.
    """
    learned, tried = train.some(), test.some()
    texts, others = _words(learned), _words(tried)
    if not any(second for _, second in texts):  # single texts, or no types
        one, other = ([first for first, _ in each] for each in (texts, others))
        return baselines(one, learned.classes, other, tried.classes, names=names)
    return baselines(texts, learned.classes, others, tried.classes, names=names)


def _words(of: Tested) -> list[tuple[str, str]]:
    """Return the tokens of each row as words: those of its first text, and of its second."""
    form, rows = Form(pad=0, layout="padded", has_labels=False), of.rows
    samples = TokenRows(of.store, of.split, form=form, seed=0, shuffle=False, rows=rows)
    found = []
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        tensors = samples.gather(some).tensors
        ids = tensors["input_ids"]
        types = tensors.get("token_type_ids", torch.zeros_like(ids))
        for row, kind, length in zip(ids, types, samples.lengths[some].tolist(), strict=True):
            is_second = kind[:length] == 1
            found.append((_text(row[:length][~is_second]), _text(row[:length][is_second])))
    return found


def _text(ids: Tensor) -> str:
    return " ".join(map(str, ids.tolist()))


def said(found: Mapping[str, Scores]) -> str:
    """Return the accuracy and the macro F1 of each in words."""
    return "; ".join(
        f"{name} {_figure(each.accuracy)} ({_figure(each.macro_f1)})"
        for name, each in found.items()
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
