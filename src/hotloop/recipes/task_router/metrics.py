"""Validation metrics of a task router: the answers of each task, and the routing of the rows.

The counts of a row are its targets, its wrong targets, the task that the router chose (plus 1), the
probability of that task, and the entropy of the task probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from hotloop.models.routing import RouterAlone
from hotloop.models.task_router import TaskRouter
from hotloop.recipes.sft.metrics import rows_of
from hotloop.session.job import ValidationMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor, nn

__all__ = ["Routed", "judge_of", "loss"]

_TARGETS, _WRONG, _ROUTED, _SURE, _ENTROPY = range(5)  # rows of the counts
_WENT: Final = "routed "  # prefix of the figures of misrouted rows
_NAMES: Final = ("targets", "wrong", "routed", "sure", "entropy")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routed:
    """The routing of some rows: confusion matrix, confidence and entropy."""

    names: tuple[str, ...]
    confusion: NDArray[np.int64]  # [task, chosen task] number of rows
    sure: float  # mean probability of the chosen task
    entropy: float  # mean entropy of the task probabilities, nats

    @property
    def accuracy(self) -> float:
        """Return the share of rows that went to their own task."""
        return float(self.confusion.trace() / max(1, self.confusion.sum()))

    @property
    def balance(self) -> float:
        """Return the entropy of the adapters' use over its maximum; 1: all are used equally."""
        used = self.confusion.sum(0) / max(1, self.confusion.sum())
        used = used[used > 0]
        most = np.log(len(self.names))
        return float(-(used * np.log(used)).sum() / most) if most else 1.0


def loss(model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
    """Return the mean loss of a batch; in a validation, add to its counts in place."""
    if isinstance(model, RouterAlone):
        return _of_router(model, batch)
    assert isinstance(model, TaskRouter), type(model)
    if "counts" not in batch:
        return model.loss(batch)
    counts, row = batch["counts"], batch["row"]
    shares, logits = model.chosen(batch)
    if logits is not None:
        _count_routes(counts, row, logits)
    if model.heads is not None:
        answers = model.answers(batch, shares)
        counts[_TARGETS, row] = 1
        counts[_WRONG, row] = answers.wrong.to(counts.dtype)
        return answers.loss.mean()
    model.shares.give(shares, batch)
    judged = model.trunk.judged(batch)
    row_of = row[rows_of(judged.at, batch, batch["input_ids"].shape[1])]
    counts[_TARGETS].index_add_(0, row_of, torch.ones_like(row_of, dtype=counts.dtype))
    counts[_WRONG].index_add_(0, row_of, (judged.said != judged.label).to(counts.dtype))
    mean: Tensor = judged.loss
    return mean


def _of_router(model: RouterAlone, batch: Mapping[str, Any]) -> Tensor:
    """Return the sum of the router's loss terms; in a validation, the cross-entropy alone."""
    if "counts" in batch:
        logits = model(batch)
        _count_routes(batch["counts"], batch["row"], logits)
        return torch.nn.functional.cross_entropy(logits, batch["task"])
    router, features = model.router, batch["features"]
    terms = router.terms(router, features, batch["task"], costs=model.costs)
    return torch.stack([*terms.values()]).sum()


def _count_routes(counts: Tensor, row: Tensor, logits: Tensor) -> None:
    log_p = logits.float().log_softmax(1)
    sure, best = log_p.exp().max(1)
    counts[_ROUTED, row] = (best + 1).to(counts.dtype)
    counts[_SURE, row] = sure.to(counts.dtype)
    counts[_ENTROPY, row] = -(log_p.exp() * log_p).sum(1).to(counts.dtype)


def judge_of(names: Sequence[str], task: NDArray[np.int64], *, score: str) -> ValidationMetrics:
    """Return the metrics of a validation; `task` [rows] covers all rows of the file."""
    return ValidationMetrics(
        start=lambda device: torch.zeros((len(_NAMES), len(task)), device=device),
        figures=partial(_figures, tuple(names), task),
        score=score,
        shows=lambda name: not name.startswith(_WENT),
    )


def _figures(
    names: tuple[str, ...], task: NDArray[np.int64], counts: Tensor
) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    values = counts.double().numpy()
    targets, wrong, routed = values[_TARGETS], values[_WRONG], values[_ROUTED].astype(np.int64)
    answered, scores = targets > 0, []
    for number, name in enumerate(names):
        rows = answered & (task == number)
        if rows.any():
            right = float((wrong[rows] == 0).mean())
            figures[f"{name}: right"] = right
            if targets[rows].max() > 1:
                figures[f"{name}: tokens right"] = float(
                    1 - wrong[rows].sum() / targets[rows].sum()
                )
                right = figures[f"{name}: tokens right"] or 0.0
            scores.append(right)
    if scores:
        figures["tasks"] = float(np.mean(scores))
    if (is_routed := routed > 0).any():
        figures |= _routes(names, task[is_routed], routed[is_routed] - 1, values[:, is_routed])
    return figures


def _routes(
    names: tuple[str, ...], task: NDArray[np.int64], chosen: NDArray[np.int64], values: Any
) -> dict[str, float | None]:
    table = np.zeros((len(names), len(names)), np.int64)
    np.add.at(table, (task, chosen), 1)
    routed = Routed(
        names=names,
        confusion=table,
        sure=float(values[_SURE].mean()),
        entropy=float(values[_ENTROPY].mean()),
    )
    return {
        "routing_accuracy": routed.accuracy,
        "routing_confidence": routed.sure,
        "routing_entropy": routed.entropy,
        "routing_balance": routed.balance,
        **{
            f"{_WENT}{names[a]} -> {names[b]}": float(table[a, b] / max(1, table[a].sum()))
            for a, b in np.argwhere(table)
            if a != b
        },
    }
