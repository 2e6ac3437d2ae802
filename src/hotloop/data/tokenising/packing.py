"""Packs whole documents into rows of one capacity, or cuts them, from their lengths alone.

Best-fit decreasing: documents come longest first, and each goes into the row with the least room
that still takes it (Johnson, Demers, Ullman, Garey, Graham 1974, doi:10.1137/0203025). Only lengths
matter, so equal lengths are placed together and rows with equal room are moved together: the work
grows with the number of distinct lengths, and what is left to do per document is sorting.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.core.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Chunks", "Packed", "Pieces", "best_fit", "concat", "pieces", "waste"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # arrays have no single truth
class Packed:
    """Which documents (or pieces) share a row.

    Rows come in the order of their first document, and the documents of a row in index order, so
    that rows stay near the order of the data.
    """

    order: NDArray[np.int64]  # [documents] indices, row by row
    starts: NDArray[np.int64]  # [rows + 1] where each row begins in `order`

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts) - 1

    def row(self, index: int) -> NDArray[np.int64]:
        """Return the documents of a row."""
        return self.order[self.starts[index] : self.starts[index + 1]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """Runs of tokens of documents, in the order of the data; [pieces] each."""

    document: NDArray[np.int64]
    first: NDArray[np.int64]  # token of the document at which the piece begins
    count: NDArray[np.int64]  # tokens, 1 or more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunks:
    """The text of all documents one after another, cut into rows."""

    pieces: Pieces
    packed: Packed  # of pieces


def best_fit(lengths: NDArray[np.integer[Any]], capacity: int) -> Packed:
    """Pack documents of 1..capacity tokens, none of them cut; lengths is [documents].

    There are exactly as many rows as best-fit decreasing makes one document at a time. Equal
    lengths are placed in index order. Raises DataError for a document that is empty or too long:
    `pieces` cuts long ones and leaves out empty ones.
    """
    lengths = _documents(lengths, capacity)
    if lengths.size and not 1 <= lengths.min() <= lengths.max() <= capacity:
        index = int(np.argmax((lengths < 1) | (lengths > capacity)))
        raise DataError(
            f"document {index} has {lengths[index]} tokens, but a row takes whole documents of 1 "
            f"to {capacity}; cut long ones (pieces does), and leave out empty ones"
        )
    # numpy sorts 16 bits by radix, wider numbers by comparisons
    room = (capacity - lengths).astype(np.min_scalar_type(capacity))
    longest_first = np.argsort(room, kind="stable")
    room = room[longest_first]
    begins = np.flatnonzero(np.append(room.size > 0, room[1:] != room[:-1]))  # of equal lengths
    counts = np.diff(begins, append=len(room))
    distinct = capacity - room[begins].astype(np.int64)
    return _ordered(longest_first, _place(distinct.tolist(), counts.tolist(), capacity))


def concat(lengths: NDArray[np.integer[Any]], capacity: int) -> Chunks:
    """Cut the text of all documents, one after another, every `capacity` tokens.

    All rows are full but the last. Empty documents leave no piece.
    """
    lengths = _documents(lengths, capacity)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.arange(0, total, capacity, dtype=np.int64)
    begins = ends - lengths
    at = np.union1d(begins[lengths > 0], cuts)
    document = np.searchsorted(ends, at, side="right")
    cut = Pieces(
        document=document, first=at - begins[document], count=np.diff(at, append=np.int64(total))
    )
    starts = np.append(np.searchsorted(at, cuts), len(at))
    return Chunks(pieces=cut, packed=Packed(order=np.arange(len(at)), starts=starts))


def pieces(lengths: NDArray[np.integer[Any]], capacity: int) -> Pieces:
    """Cut each document every `capacity` tokens; the last piece of it is what remains.

    `best_fit(pieces(lengths, capacity).count, capacity)` then packs pieces. Empty documents leave
    no piece.
    """
    lengths = _documents(lengths, capacity)
    each = -(-lengths // capacity)
    document = np.repeat(np.arange(len(lengths)), each)
    first = _ranges(np.zeros_like(each), each) * capacity
    return Pieces(
        document=document, first=first, count=np.minimum(capacity, lengths[document] - first)
    )


def waste(lengths: NDArray[np.integer[Any]], rows: int, capacity: int) -> float:
    """Return the share of the slots of `rows` rows that no token of these documents fills."""
    slots = rows * capacity
    return 1 - int(np.sum(lengths, dtype=np.int64)) / slots if slots else 0.0


def _documents(lengths: NDArray[np.integer[Any]], capacity: int) -> NDArray[np.int64]:
    assert capacity > 0, capacity
    assert lengths.ndim == 1, lengths.shape
    return lengths.astype(np.int64, copy=False)


def _place(lengths: list[int], counts: list[int], capacity: int) -> NDArray[np.int64]:
    """Return the row of each document, longest first; `lengths` are distinct and fall.

    Rows are numbered as they are opened. A row that takes one document of a length has the least
    room of all that take another one, so it takes as many as go in. What is open are runs of rows
    (first, how many) by their room; a length splits two runs at most, and a run that takes a length
    is left with less than half its room, so there are few of them.
    """
    rooms: list[int] = []  # keys of `runs`, ascending
    runs: dict[int, list[tuple[int, int]]] = {}
    placed: list[tuple[int, int, int]] = []  # first row, rows, documents in each
    rows = 0

    def leave(room: int, first: int, many: int) -> None:
        if not room or not many:
            return
        if room not in runs:
            insort(rooms, room)
            runs[room] = []
        runs[room].append((first, many))

    for length, left in zip(lengths, counts, strict=True):
        while left:
            at = bisect_left(rooms, length)
            if at == len(rooms):
                opened = -(-left // (capacity // length))
                leave(capacity, rows, opened)
                rows += opened
            room = rooms[at]
            first, many = runs[room].pop()
            if not runs[room]:
                del runs[room], rooms[at]
            each = room // length
            full = min(many, left // each)
            placed.append((first, full, each))
            leave(room - each * length, first, full)
            left -= full * each
            if full < many and left:  # for fewer than one row takes
                placed.append((first + full, 1, left))
                leave(room - left * length, first + full, 1)
                full, left = full + 1, 0
            leave(room, first + full, many - full)
    first_row, many_rows, documents = np.array(placed, dtype=np.int64).reshape(-1, 3).T
    return np.repeat(_ranges(first_row, many_rows), np.repeat(documents, many_rows))


def _ranges(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return first, first + 1, ... of each pair, `count` numbers, one after another."""
    ends = np.cumsum(count)
    return np.arange(count.sum()) + np.repeat(first - ends + count, count)


def _ordered(document: NDArray[np.int64], row: NDArray[np.int64]) -> Packed:
    """Return the rows in the order of Packed from pairs of a document and its row."""
    n = len(row)
    bits = n.bit_length()
    assert bits < 32, n  # two of them make a key
    first = np.full(row.max(initial=-1) + 1, n)  # document of each row
    np.minimum.at(first, row, document)
    keys = (first[row] << bits) | document
    keys.sort()  # values sort several times faster than places by values
    starts = np.flatnonzero(np.append(n > 0, keys[1:] ^ keys[:-1] >= 1 << bits))
    keys &= (1 << bits) - 1
    return Packed(order=keys, starts=np.append(starts, n))
