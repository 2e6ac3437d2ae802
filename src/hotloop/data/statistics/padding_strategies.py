"""Compute the cost of padding, its share and the batches of an epoch, for each strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.length_buckets import BucketedBatches, bucketed, by_budget, by_count
from hotloop.data.sampling.padded_widths import MULTIPLE, padded
from hotloop.data.tokenising.packing import best_fit, waste

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Padding", "strategies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """The padding of one way to make batches from the lengths."""

    share: float  # of all slots of an epoch that hold padding, 0 to 1
    batches: int  # of one epoch


def strategies(
    lengths: NDArray[np.integer[Any]],
    *,
    batch: int,
    longest: int,
    round_to: int = MULTIPLE,
) -> dict[str, Padding]:
    """Return the padding of the first epoch of samples of these lengths, [samples], by strategy.

    max: `batch` rows, each padded to `longest`; dynamic: random batches, padded to their longest
    row; bucketed: batches of similar lengths; budget: such batches of up to batch * longest
    tokens, the size of a batch padded to `longest`; packed: rows of `longest`
    tokens. A longer sample counts as cut to `longest`. Raises DataError as these strategies do.
    """
    assert batch > 0 < longest, (batch, longest)
    lengths = np.minimum(lengths, longest)
    n = len(lengths)
    order = permutation(0, 0, n)
    budget = batch * max(longest, int(padded(lengths, round_to).max()))
    packed = len(best_fit(lengths, longest))
    return {
        "max": _of_rows(lengths, batch=batch, rows=n, width=longest),
        "dynamic": _of_batches(by_count(lengths, batch, order=order, round_to=round_to), lengths),
        "bucketed": _of_batches(
            bucketed(lengths, batch, seed=0, epoch=0, round_to=round_to), lengths
        ),
        "budget": _of_batches(
            by_budget(lengths, budget, seed=0, epoch=0, round_to=round_to), lengths
        ),
        "packed": _of_rows(lengths, batch=batch, rows=packed, width=longest),
    }


def _of_batches(batches: BucketedBatches, lengths: NDArray[np.integer[Any]]) -> Padding:
    return Padding(share=batches.padding(lengths), batches=len(batches))


def _of_rows(lengths: NDArray[np.integer[Any]], *, batch: int, rows: int, width: int) -> Padding:
    return Padding(share=waste(lengths, rows, width), batches=-(-rows // batch))
