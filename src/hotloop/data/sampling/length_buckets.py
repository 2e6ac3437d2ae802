"""Cut an epoch into batches: a pure function of (seed, epoch, index), padding included.

`by_count` takes samples in order; `bucketed` puts samples of similar length together; `by_budget`
does so with as many rows as a number of tokens allows, so that steps cost alike. The last two sort
inside mega-batches only: an epoch still has its samples in random order.
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
BUDGET = 16_384  # tokens of a batch, with padding: 8 rows of 2048
MEGA = 100  # batches that are sorted together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # == of arrays is not one bool
class BucketedBatches:
    """The batches of one epoch, in order.

    A position in an epoch is a number of samples. Only the last batch may have fewer rows than fit.
    """

    order: NDArray[np.int64]  # [samples] indices, batch by batch
    starts: NDArray[np.int64]  # [batches + 1] start of each batch in `order`
    widths: NDArray[np.int64]  # [batches] columns to which each batch is padded
    dropped: int = 0  # samples of this epoch that are in no batch

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.widths)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the number of samples of each batch, [batches]."""
        return np.diff(self.starts)

    def batch(self, index: int) -> NDArray[np.int64]:
        """Return the samples of a batch."""
        return self.order[self.starts[index] : self.starts[index + 1]]

    def share(self, index: int, *, rank: int, ranks: int) -> NDArray[np.int64]:
        """Return the samples of a batch for one of `ranks` ranks: each `ranks`-th of them.

        The batch is the same for any number of ranks, and its rows are spread evenly by length. If
        a batch has fewer rows than there are ranks, some ranks get none.
        """
        assert 0 <= rank < ranks, (rank, ranks)
        return self.batch(index)[rank::ranks]

    def at(self, position: int) -> int:
        """Return the batch that begins after `position` samples; the epoch's end is batch len().

        Raises DataError for a position inside a batch, which comes from other lengths, seed or
        sizes.
        """
        index = int(np.searchsorted(self.starts, position))
        if index <= len(self) and self.starts[index] == position:
            return index
        raise DataError(
            f"no batch begins after {position} samples of this epoch (it has {len(self.order)} in "
            f"{len(self)} batches); resume with the data, seed and batch settings of the run"
        )

    def padding(self, lengths: NDArray[np.integer[Any]]) -> float:
        """Return the share of all batches' slots that is padding; lengths is [all samples]."""
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
    """Cut an order (default: that of the data) every `batch` samples; lengths is [samples].

    For packed rows, all lengths are the capacity. For `round_to` see `padded`. `drop_last` drops
    the samples that do not fill a batch. Raises DataError if nothing is left, and as `padded` does.
    """
    assert batch > 0, batch
    wide = padded(lengths, round_to)
    order = np.arange(len(wide)) if order is None else order
    dropped = len(order) % batch if drop_last else 0
    used = order[: len(order) - dropped]
    if not len(used):
        raise DataError(
            f"{len(order)} samples fill no batch of {batch}, and drop_last drops the rest; take "
            "smaller batches, or leave drop_last off"
        )
    starts = np.append(np.arange(0, len(used), batch), len(used))
    return BucketedBatches(
        order=used,
        starts=starts,
        widths=np.maximum.reduceat(wide[used], starts[:-1]),
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
    """Cut an epoch into batches of `batch` samples of similar length; lengths is [samples].

    The epoch's random order is sorted by padded width within `mega` batches, cut, and the full
    batches are shuffled. The samples that do not fill a batch are drawn before the sorting,
    regardless of their length, and come last, or with `drop_last` not at all. So batch i begins
    after i * batch samples. Raises DataError as `by_count` does.
    """
    assert batch > 0 < mega, (batch, mega)
    wide = padded(lengths, round_to)
    order = permutation(seed, epoch, len(wide))
    full = len(wide) - len(wide) % batch
    if full:
        sorted_order = np.concatenate(list(_megas(order[:full], wide, batch, mega)))
        shuffle = _shuffle(seed, epoch, len(wide), full // batch)
        order[:full] = sorted_order.reshape(-1, batch)[shuffle].ravel()
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
    """Cut an epoch into batches of similar length with rows * width <= budget.

    lengths is [samples]. The epoch's random order is sorted by padded width within about `mega`
    batches and cut from the widest row down: each batch has as many rows as its width allows. The
    remainders of all mega-batches are batched together, so that all batches but the last are full.
    The full batches are shuffled. If `round_to` is a list of widths, an epoch has one shape for
    each and one more. Raises DataError for a sample that is wider than the budget, and as `padded`
    does.
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
    remainders = [_cut(near, wide, budget, batches) for near in _megas(order, wide, rows, mega)]
    rest = _cut(_widest_first(np.concatenate(remainders), wide), wide, budget, batches)
    turns = _shuffle(seed, epoch, len(wide), len(batches))
    batches = [*(batches[turn] for turn in turns), *([rest] if len(rest) else [])]
    return BucketedBatches(
        order=np.concatenate(batches),
        starts=np.cumsum([0, *map(len, batches)]),
        widths=np.array([wide[indices[0]] for indices in batches]),
    )


def _megas(
    order: NDArray[np.int64], wide: NDArray[np.int64], batch: int, mega: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the order in parts of at most `mega` batches, each sorted.

    A part is at most a quarter of the epoch (or one batch), as in the group_by_length of
    transformers 4: in a small data set a sample would else have the same neighbours in every epoch.
    """
    size = batch * max(1, min(mega, len(order) // (4 * batch)))
    for first in range(0, len(order), size):
        yield _widest_first(order[first : first + size], wide)


def _widest_first(part: NDArray[np.int64], wide: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the samples sorted by width; those of equal width keep their random order."""
    return part[np.argsort(-wide[part], kind="stable")]


def _cut(
    rows: NDArray[np.int64],
    wide: NDArray[np.int64],
    budget: int,
    batches: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Append the full batches of samples sorted widest first; return the remaining samples."""
    start = 0
    while start < len(rows) and (end := start + budget // int(wide[rows[start]])) <= len(rows):
        batches.append(rows[start:end])
        start = end
    return rows[start:]


def _shuffle(seed: int, epoch: int, n: int, batches: int) -> NDArray[np.int64]:
    """Return the random order of an epoch's batches, by a key after those of its n samples."""
    return permutation(seed_of(seed, epoch, n), epoch, batches)
