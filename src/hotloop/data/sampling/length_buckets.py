"""Cuts an epoch into batches: a pure function of (seed, epoch, index), padding included.

`by_count` takes samples as they come, `bucketed` puts samples of like length together, and
`by_budget` does so with as many rows as a number of tokens allows, so that steps cost alike. Both
sort inside mega-batches only: an epoch still meets its samples in random order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.core.errors import DataError
from hotloop.data.sampling.epoch_order import permutation, seed_of
from hotloop.data.sampling.padded_widths import MULTIPLE, padded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["BUDGET", "MEGA", "BucketedBatches", "bucketed", "by_budget", "by_count"]

# 300,000 lengths of lognormal(mean 180, sigma 1) up to 2048 leave 3.9 % of padding with these in
# batches by budget; 5.8 % with 50 batches sorted together, 3.0 % with 200 (numpy 2.4.6, 2026-11).
BUDGET = 16_384  # tokens of a batch, padding included: 8 rows of 2048
MEGA = 100  # batches that are sorted together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # arrays have no single truth
class BucketedBatches:
    """The batches of one epoch, in the order in which they are met.

    A position in an epoch is a number of samples. A batch with fewer rows than there was room for
    is the last one.
    """

    order: NDArray[np.int64]  # [samples] indices, batch by batch
    starts: NDArray[np.int64]  # [batches + 1] where each batch begins in `order`
    widths: NDArray[np.int64]  # [batches] columns that each batch is padded to
    dropped: int = 0  # samples of this epoch that are in no batch

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.widths)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Samples of each batch, [batches]."""
        return np.diff(self.starts)

    def batch(self, index: int) -> NDArray[np.int64]:
        """Return the samples of a batch."""
        return self.order[self.starts[index] : self.starts[index + 1]]

    def share(self, index: int, *, rank: int, ranks: int) -> NDArray[np.int64]:
        """Return the samples of a batch that one of `ranks` ranks takes: each `ranks`-th of them.

        The batch is the same whatever the number of ranks, and its rows are spread evenly by
        length. A batch of fewer rows than ranks leaves some of them without any.
        """
        assert 0 <= rank < ranks, (rank, ranks)
        return self.batch(index)[rank::ranks]

    def at(self, position: int) -> int:
        """Return the batch that begins after `position` samples; the epoch's end is batch len().

        Raises DataError for a position inside a batch: other lengths, seed or sizes made it.
        """
        index = int(np.searchsorted(self.starts, position))
        if index <= len(self) and self.starts[index] == position:
            return index
        raise DataError(
            f"no batch begins after {position} samples of this epoch (it has {len(self.order)} in "
            f"{len(self)} batches); resume with the data, seed and batch settings of the run"
        )

    def padding(self, lengths: NDArray[np.integer[Any]]) -> float:
        """Return the share of all batches' slots that is padding; lengths is of all samples."""
        slots = int(self.rows @ self.widths)
        return 1 - int(np.sum(lengths[self.order], dtype=np.int64)) / slots


def by_count(
    lengths: NDArray[np.integer[Any]],
    batch: int,
    *,
    order: NDArray[np.int64] | None = None,
    round_to: int | NDArray[np.int64] = MULTIPLE,
    drop_last: bool = False,
) -> BucketedBatches:
    """Cut an order (by default that of the data) every `batch` samples; lengths is [samples].

    For packed rows, lengths are all the capacity. For `round_to` see `padded`. `drop_last` drops
    the samples that fill no batch. Raises DataError where nothing is left, and as `padded` does.
    """
    assert batch > 0, batch
    wide = padded(lengths, round_to)
    order = np.arange(len(wide)) if order is None else order
    dropped = len(order) % batch if drop_last else 0
    kept = order[: len(order) - dropped]
    if not len(kept):
        raise DataError(
            f"{len(order)} samples fill no batch of {batch}, and drop_last drops the rest; take "
            "smaller batches, or leave drop_last off"
        )
    starts = np.append(np.arange(0, len(kept), batch), len(kept))
    return BucketedBatches(
        order=kept,
        starts=starts,
        widths=np.maximum.reduceat(wide[kept], starts[:-1]),
        dropped=dropped,
    )


def bucketed(
    lengths: NDArray[np.integer[Any]],
    batch: int,
    *,
    seed: int,
    epoch: int,
    mega: int = MEGA,
    round_to: int | NDArray[np.int64] = MULTIPLE,
    drop_last: bool = False,
) -> BucketedBatches:
    """Cut an epoch into batches of `batch` samples of like length; lengths is [samples].

    The epoch's random order is sorted by padded width within `mega` batches, cut, and the full
    batches are shuffled. What fills no batch is drawn before anything is sorted, whatever its
    length, and comes last, or with `drop_last` not at all. So batch i begins after i * batch
    samples. Raises DataError as `by_count` does.
    """
    assert batch > 0 < mega, (batch, mega)
    wide = padded(lengths, round_to)
    order = permutation(seed, epoch, len(wide))
    full = len(wide) - len(wide) % batch
    if full:
        near = np.concatenate(list(_megas(order[:full], wide, batch, mega)))
        turns = _shuffle(seed, epoch, len(wide), full // batch)
        order[:full] = near.reshape(-1, batch)[turns].ravel()
    return by_count(lengths, batch, order=order, round_to=round_to, drop_last=drop_last)


def by_budget(
    lengths: NDArray[np.integer[Any]],
    budget: int = BUDGET,
    *,
    seed: int,
    epoch: int,
    mega: int = MEGA,
    round_to: int | NDArray[np.int64] = MULTIPLE,
) -> BucketedBatches:
    """Cut an epoch into batches of like length with rows * width <= budget; lengths is [samples].

    The epoch's random order is sorted by padded width within about `mega` batches and cut from the
    widest row down: each batch has as many rows as its width allows. What a mega-batch leaves over
    makes batches with what others leave, so that all are full but the last one. The full batches
    are shuffled. With `round_to` a list of widths, an epoch has one shape for each and one more.
    Raises DataError for a sample that is wider than the budget, and as `padded` does.
    """
    assert mega > 0, mega
    wide = padded(lengths, round_to)
    if wide.max() > budget:
        index = int(wide.argmax())
        raise DataError(
            f"sample {index} has {lengths[index]} tokens and is {wide[index]} wide when padded, "
            f"but a batch holds {budget} tokens at most; raise the budget, or cut or leave out "
            "longer samples"
        )
    rows = max(1, budget * len(wide) // int(wide.sum()))  # of a typical batch
    order = permutation(seed, epoch, len(wide))
    batches: list[NDArray[np.int64]] = []
    over = [_cut(near, wide, budget, batches) for near in _megas(order, wide, rows, mega)]
    rest = _cut(_widest_first(np.concatenate(over), wide), wide, budget, batches)
    turns = _shuffle(seed, epoch, len(wide), len(batches))
    batches = [*(batches[turn] for turn in turns), *([rest] if len(rest) else [])]
    return BucketedBatches(
        order=np.concatenate(batches),
        starts=np.cumsum([0, *map(len, batches)]),
        widths=np.array([wide[one[0]] for one in batches]),
    )


def _megas(
    order: NDArray[np.int64], wide: NDArray[np.int64], batch: int, mega: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the order in parts of at most `mega` batches, each sorted.

    A part is a quarter of the epoch (or one batch) at most, as in the group_by_length of
    transformers 4: a sample of a small data set would else meet the same neighbours in every epoch.
    """
    size = batch * max(1, min(mega, len(order) // (4 * batch)))
    for first in range(0, len(order), size):
        yield _widest_first(order[first : first + size], wide)


def _widest_first(part: NDArray[np.int64], wide: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the samples sorted; those of equal width stay in their random order."""
    return part[np.argsort(-wide[part], kind="stable")]


def _cut(
    near: NDArray[np.int64],
    wide: NDArray[np.int64],
    budget: int,
    batches: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Append the full batches of samples that come widest first; return what fills none."""
    at = 0
    while at < len(near) and (end := at + budget // int(wide[near[at]])) <= len(near):
        batches.append(near[at:end])
        at = end
    return near[at:]


def _shuffle(seed: int, epoch: int, n: int, batches: int) -> NDArray[np.int64]:
    """Return the turns of an epoch's batches: of a key after those of its n samples."""
    return permutation(seed_of(seed, epoch, n), epoch, batches)
