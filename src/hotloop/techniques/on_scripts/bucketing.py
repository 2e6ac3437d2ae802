"""Cuts a random order of samples into batches of similar length, as a function of the order alone.

An epoch is cut into pieces of up to 50 batches. Each piece is sorted by length and cut into
batches, which are shuffled by a private generator, seeded with a checksum of the lengths in the
epoch's order. Ordering batches by the position of one sample would put a batch of many equally long
samples early.
"""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "Gain",
    "by_count",
    "by_tokens",
    "fewest",
    "in_order",
    "padded",
    "shuffled",
    "widths",
]

# The number of batches sorted together, and the least number of pieces of an epoch, as in Hugging
# Face's LengthGroupedSampler (transformers 5.23, trainer_pt_utils.py).
TOGETHER, PIECES = 50, 4


def in_order(lengths: NDArray[np.int32], batch: int) -> Iterator[NDArray[np.int64]]:
    """Yield the positions [batch] of consecutive batches in the epoch's order."""
    for first in range(0, len(lengths), batch):
        yield np.arange(first, min(first + batch, len(lengths)))


def by_count(lengths: NDArray[np.int32], batch: int) -> Iterator[NDArray[np.int64]]:
    """Yield batches of samples of similar length, as positions [batch] in the epoch's order.

    `lengths` [n] are those of the samples in the epoch's order. The samples left over at its end,
    fewer than a batch, form the last batch.
    """

    def cut(ordered: NDArray[np.int32]) -> Sequence[int]:
        return range(0, len(ordered), batch)

    return _batches(lengths, batch, cut)


def by_tokens(
    lengths: NDArray[np.int32], batch: int, *, multiple: int = 1, tokens: int = 0
) -> Iterator[NDArray[np.int64]]:
    """Yield batches of few long or many short samples, as positions in the epoch's order.

    The width of a batch is its longest row's length, rounded up to `multiple`. Rows times width is
    at most `tokens`, or the budget of `fewest` for the present number of batches if that is larger.
    There are never more batches than with `by_count`, and equally many if `tokens` is 0. The
    samples left over come last.
    """

    def cut(ordered: NDArray[np.int32]) -> Sequence[int]:
        falling = widths(ordered, multiple)[::-1]
        number, budget = len(ordered) // batch, fewest(falling, len(ordered) // batch)
        starts = _greedy(falling, max(budget, tokens))
        if tokens <= budget:
            starts = _split(falling, starts, number)
        return sorted(len(ordered) - end for end in (*starts[1:], len(ordered)))

    return _batches(lengths, batch, cut)


def _batches(
    lengths: NDArray[np.int32], batch: int, cut: Callable[[NDArray[np.int32]], Sequence[int]]
) -> Iterator[NDArray[np.int64]]:
    """Yield the batches of each piece, shuffled.

    `cut` takes a piece's lengths in ascending order and returns the index where each batch begins.
    """
    number = len(lengths) // batch
    together = max(1, min(TOGETHER, number // PIECES))
    pieces = max(1, round(number / together))
    edges = [number * at // pieces * batch for at in range(pieces + 1)]
    draw = np.random.default_rng(zlib.crc32(np.ascontiguousarray(lengths).tobytes()))
    for first, end in itertools.pairwise(edges):
        places = first + np.argsort(lengths[first:end], kind="stable")
        if len(places):
            made = np.split(places, list(cut(lengths[places]))[1:])
            yield from (made[at] for at in draw.permutation(len(made)))
    if edges[-1] < len(lengths):
        yield np.arange(edges[-1], len(lengths))


def fewest(falling: NDArray[np.int32], number: int) -> int:
    """Return the least rows x width with which at most `number` batches hold all samples.

    `falling` [n] are the widths of the samples in descending order.
    """
    low = int(max(falling[0], -(-int(falling.sum(dtype=np.int64)) // number)))
    high = max(low, -(-len(falling) // number) * int(falling[0]))
    while low < high:
        middle = (low + high) // 2
        if len(_greedy(falling, middle)) <= number:
            high = middle
        else:
            low = middle + 1
    return low


def _greedy(falling: NDArray[np.int32], budget: int) -> list[int]:
    """Return the start indices of batches that take as many rows as `budget` allows, at least 1."""
    starts, at = [], 0
    while at < len(falling):
        starts.append(at)
        at += max(1, budget // max(1, int(falling[at])))
    return starts


def _split(falling: NDArray[np.int32], starts: list[int], number: int) -> list[int]:
    """Halve the largest batches until there are `number` of them; return the start indices."""
    starts = list(starts)
    while len(starts) < number:
        ends = [*starts[1:], len(falling)]
        sizes = [
            (end - at) * int(falling[at]) * (end - at > 1)
            for at, end in zip(starts, ends, strict=True)
        ]
        at = int(np.argmax(sizes))
        starts.insert(at + 1, (starts[at] + ends[at] + 1) // 2)
    return starts


def widths(lengths: NDArray[np.int32], multiple: int) -> NDArray[np.int32]:
    """Return the lengths rounded up to a multiple of `multiple`; a length of 0 counts as 1."""
    return -(-np.maximum(lengths, 1) // multiple) * multiple


def padded(
    lengths: NDArray[np.int32], batches: Iterator[NDArray[np.int64]], *, multiple: int = 1
) -> int:
    """Return the number of positions in all batches, padding included."""
    sizes = widths(lengths, multiple)
    return sum(len(batch) * int(sizes[batch].max()) for batch in batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Numbers of positions in an epoch's batches, computed from the lengths of its samples."""

    samples: int
    real: int  # positions that are not padding
    before: int  # positions of random batches, each as wide as its longest row
    after: int  # positions of the batches that `divide` makes

    @classmethod
    def of(
        cls,
        lengths: NDArray[np.int32],
        batch: int,
        divide: Callable[[NDArray[np.int32], int], Iterator[NDArray[np.int64]]],
        *,
        multiple: int,
    ) -> Gain:
        """Divide a random order of the samples whose length is known (0 or more)."""
        some = shuffled(lengths)
        return cls(
            samples=len(some),
            real=int(some.sum(dtype=np.int64)),
            before=padded(some, in_order(some, batch), multiple=multiple),
            after=padded(some, divide(some, batch), multiple=multiple),
        )


def shuffled(lengths: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the known lengths in a random order that is the same on every call."""
    return np.random.default_rng(0).permutation(lengths[lengths >= 0])
