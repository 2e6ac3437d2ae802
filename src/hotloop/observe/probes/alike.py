"""A permutation test: how much more alike the targets of one update are than random rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Alike", "alike"]

_SHUFFLES = 100
_SEED = 7
_KINDS = 1000  # distinct values up to which whole numbers are classes
_FEWEST, _UPDATES = 4, 6  # rows of an update; updates


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """The targets of updates, compared with the same rows in random order."""

    alike: float  # 0: as random rows, 1: within an update all are the same
    deviations: float  # standard deviations above random orders
    values: int | None  # distinct classes; None: the targets are numbers
    per_update: float | None = None  # distinct classes of an update, mean
    by_chance: float | None = None  # in a random order


def alike(updates: Sequence[Sequence[Any]]) -> Alike | None:
    """Compare the rows of each update with random ones; None if there is nothing to compare.

    `updates` are the targets of each update's backward passes, [B, C] each.
    """
    import torch

    if len({(part.shape[1], part.dtype) for update in updates for part in update}) != 1:
        return None
    batches = [torch.cat(list(update)).cpu() for update in updates]
    batches = [batch for batch in batches if len(batch) >= _FEWEST]  # not the rest of an epoch
    if len(batches) < _UPDATES:
        return None
    rows = torch.cat(batches)
    sizes = torch.tensor([len(batch) for batch in batches])
    batch = torch.repeat_interleave(torch.arange(len(batches)), sizes)
    if not bool(torch.isfinite(rows.double()).all()):
        return None
    values, kinds = torch.unique(rows, dim=0, return_inverse=True)
    is_whole = not rows.is_floating_point() or bool((rows == rows.round()).all())
    if is_whole and rows.shape[1] == 1:
        return _classes(batch, sizes, kinds, len(values)) if len(values) <= _KINDS else None
    return _numbers(batch, sizes, rows.double())


def _classes(batch: Any, sizes: Any, kinds: Any, count: int) -> Alike | None:
    """Compare the share of pairs of one update that are of one class."""
    import torch

    total = torch.bincount(kinds, minlength=count).double()
    chance = float((total * (total - 1)).sum() / (len(kinds) * (len(kinds) - 1)))
    pairs = float((sizes * (sizes - 1)).sum())
    if chance >= 1:
        return None
    distinct: list[float] = []

    def measure(order: Any) -> float:
        table = torch.bincount(batch * count + order, minlength=len(sizes) * count).double()
        distinct.append(float((table > 0).sum()) / len(sizes))
        return (float((table * (table - 1)).sum()) / pairs - chance) / (1 - chance)

    value, deviations = _deviations(measure, kinds)
    by_chance = sum(distinct[1:]) / len(distinct[1:])
    return Alike(
        alike=value,
        deviations=deviations,
        values=count,
        per_update=distinct[0],
        by_chance=by_chance,
    )


def _numbers(batch: Any, sizes: Any, rows: Any) -> Alike | None:
    """Compare the variance within updates with that over all rows, columns scaled alike."""
    import torch

    scale = rows.std(0)
    rows = (rows - rows.mean(0))[:, scale > 0] / scale[scale > 0]
    if not rows.shape[1]:
        return None
    freedom = len(rows) - len(sizes)

    def measure(order: Any) -> float:
        sums = torch.zeros(len(sizes), order.shape[1], dtype=order.dtype)
        means = sums.index_add(0, batch, order) / sizes[:, None]
        within = (order - means[batch]).square().sum() / (freedom * order.shape[1])
        return 1 - float(within)

    value, deviations = _deviations(measure, rows)
    return Alike(alike=value, deviations=deviations, values=None)


def _deviations(measure: Callable[[Any], float], rows: Any) -> tuple[float, float]:
    """Return the measure of rows in their order, and how far it exceeds random orders."""
    import torch

    generator = torch.Generator().manual_seed(_SEED)
    value = measure(rows)
    orders = (torch.randperm(len(rows), generator=generator) for _ in range(_SHUFFLES))
    others = torch.tensor([measure(rows[order]) for order in orders], dtype=torch.float64)
    spread = max(float(others.std()), 1e-9)
    return value, (value - float(others.mean())) / spread
