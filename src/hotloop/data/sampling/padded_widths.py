"""Round lengths up to padded widths, and choose few widths for compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.core.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MULTIPLE", "padded", "rounded_up", "widths"]

MULTIPLE = 8  # columns; fast for matrix units (techniques/dynamic_padding.py)
_NEVER = 1 << 62  # slots; more than any data set has


def rounded_up(length: int, multiple: int) -> int:
    """Return the smallest multiple that is not less than a length."""
    return -(-length // multiple) * multiple


def padded(
    lengths: NDArray[np.integer[Any]], round_to: int | NDArray[np.int64] = MULTIPLE
) -> NDArray[np.int64]:
    """Return lengths rounded up to a multiple, or to the next of ascending widths; both [samples].

    The multiple should divide the number of positions of the model, or a width may exceed it.
    Raises DataError if there is no sample, one is empty, or one is longer than all widths.
    """
    if not len(lengths):
        raise DataError("expected samples, got none; check the files and filters of the data")
    if lengths.min() < 1:
        index = lengths.argmin()
        raise DataError(
            f"sample {index} has {lengths[index]} tokens, but 1 or more are needed; leave out "
            "empty samples"
        )
    exact = lengths.astype(np.int64, copy=False)
    if not isinstance(round_to, np.ndarray):
        assert round_to > 0, round_to
        return -(-exact // round_to) * round_to
    if exact.max() > round_to[-1]:
        index = exact.argmax()
        raise DataError(
            f"sample {index} has {exact[index]} tokens, but the widest width is {round_to[-1]}; "
            "add a width, or cut or leave out longer samples"
        )
    return round_to[np.searchsorted(round_to, exact)]


def widths(
    lengths: NDArray[np.integer[Any]], most: int, *, multiple: int = MULTIPLE
) -> NDArray[np.int64]:
    """Return at most `most` widths, ascending, that leave the least padding row by row.

    Each length is rounded up to the next width; all widths are multiples of `multiple`, and the
    last one fits the longest sample. lengths is [samples]. Dynamic programming over the D distinct
    padded lengths, in most * D log D operations. Raises DataError as `padded` does.
    """
    assert most > 0, most
    values, counts = np.unique(padded(lengths, multiple), return_counts=True)
    below = np.concatenate(([0], np.cumsum(counts)))  # samples narrower than values[i]
    cost = np.where(below > 0, _NEVER, 0)  # slots of the samples below values[i], widths so far
    cuts = []
    for _ in range(min(most, len(values))):
        cost, cut = _one_more(cost, below, values)
        cuts.append(cut)
    chosen, end = [], len(values)
    for cut in reversed(cuts):
        chosen.append(values[end - 1])
        end = cut[end]
    return np.array(chosen[::-1], dtype=np.int64)


def _one_more(
    cost: NDArray[np.int64], below: NDArray[np.int64], values: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cost of each prefix of values with one more width, and where that width begins.

    A longer prefix never needs its last width to begin earlier, so each answer halves the search of
    the others (divide and conquer; Galil, Park 1992, doi:10.1016/0304-3975(92)90135-3).
    """
    best, cut = np.full_like(cost, _NEVER), np.zeros_like(cost)
    ranges = [(1, len(values), 0, len(values) - 1)]  # prefixes, and where their width may begin
    while ranges:
        first, last, low, high = ranges.pop()
        if first > last:
            continue
        end = (first + last) // 2
        begin = slice(low, min(high, end - 1) + 1)
        slots = cost[begin] + values[end - 1] * (below[end] - below[begin])
        best_begin = int(slots.argmin())
        best[end], cut[end] = min(slots[best_begin], _NEVER), low + best_begin
        ranges += [(first, end - 1, low, low + best_begin), (end + 1, last, low + best_begin, high)]
    return best, cut
