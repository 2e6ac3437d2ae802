"""Validation metrics of a language model's answers besides the loss.

The counts of a row are its tokens that carry loss, those of them that the model predicts wrongly,
and a digest of its predictions, each made from the right tokens before it. Where a row has no wrong
token, greedy decoding writes it word for word.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch

from hotloop.models.causal_lm import CausalLm
from hotloop.session.job import ValidationMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from hotloop.models.causal_lm import Judged

__all__ = ["judge_of", "loss", "rows_of"]

_TOKENS, _WRONG, _DIGEST = range(3)  # rows of the counts
_PRIME: Final = 2_654_435_761  # Knuth's multiplicative hash; int64 sums wrap around


def loss(model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
    """Return the mean loss of a batch; in a validation, add to its counts in place."""
    if "counts" not in batch:
        value: Tensor = model(batch)
        return value
    assert isinstance(model, CausalLm), type(model)
    judged = model.judged(batch)
    _count(judged, batch)
    return judged.loss


def _count(judged: Judged, batch: Mapping[str, Any]) -> None:
    counts, width = batch["counts"], batch["input_ids"].shape[1]
    row_n = batch["row"][rows_of(judged.at, batch, width)]
    digest_n = (judged.said + 1) * ((judged.at % width + 1) * _PRIME)
    if (boundaries := batch.get("boundaries")) is not None:
        begins = boundaries.cu_seqlens.long()
        first_n = begins[torch.bucketize(judged.at, begins, right=True) - 1]
        digest_n = (judged.said + 1) * ((judged.at - first_n + 1) * _PRIME)
    counts[_TOKENS].index_add_(0, row_n, torch.ones_like(row_n))
    counts[_WRONG].index_add_(0, row_n, (judged.said != judged.label).long())
    counts[_DIGEST].index_add_(0, row_n, digest_n)


def rows_of(at_n: Tensor, batch: Mapping[str, Any], width: int) -> Tensor:
    """Return the row of the batch that contains each position, [n]."""
    rows, boundaries = len(batch["row"]), batch.get("boundaries")
    if boundaries is None or rows == batch["input_ids"].shape[0]:
        return at_n // width
    assert len(boundaries.lengths) == rows, "a flat batch has a segment for each row"
    return torch.bucketize(at_n, boundaries.cu_seqlens.long(), right=True) - 1


def judge_of(rows: int) -> ValidationMetrics:
    """Return the metrics of a validation; `rows` is the number of rows of the whole file."""
    before: list[Tensor] = []  # digests of the previous validation
    return ValidationMetrics(
        start=lambda device: torch.zeros((3, rows), dtype=torch.int64, device=device),
        figures=partial(_figures, before),
        remark=_remark,
    )


def _figures(before: list[Tensor], counts: Tensor) -> dict[str, float | None]:
    is_validated = counts[_TOKENS] > 0
    tokens, wrong, digests = counts[:, is_validated]
    changed = None
    if before and before[0].shape == digests.shape:
        changed = float((before[0] != digests).double().mean())
    before[:] = [digests]
    return {
        "token_accuracy": 1 - float(wrong.sum()) / float(tokens.sum()),
        "answers_right": float((wrong == 0).double().mean()),
        "answers_changed": changed,
    }


def _remark(figures: Mapping[str, float | None]) -> str | None:
    if figures["answers_changed"] != 0:
        return None
    right = figures["answers_right"] or 0.0
    return (
        "no answer to the validation rows has changed since the validation before "
        f"({right:.0%} of them are right word for word): more steps may change nothing"
    )
