"""Pack whole documents into rows of one capacity, or cut them, based on their lengths.

Best-fit decreasing: documents come longest first, and each goes into the row with the least room
that still fits it (Johnson, Demers, Ullman, Garey, Graham 1974, doi:10.1137/0203025). Only lengths
matter, so equal lengths are placed together and rows with equal room are moved together: the work
grows with the number of distinct lengths, and the only work per document is sorting.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # == of arrays is not one bool
class Packed:
    """The documents (or pieces) that share a row.

    Rows are in the order of their first document, and the documents of a row in index order, so
    that rows stay close to the order of the data.
    """

    order: NDArray[np.int64]  # [documents] indices, row by row
    starts: NDArray[np.int64]  # [rows + 1] start of each row in `order`

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """Runs of tokens of documents, in the order of the data; [pieces] each."""

    document: NDArray[np.int64]
    first: NDArray[np.int64]  # index in the document of the piece's first token
    count: NDArray[np.int64]  # tokens, 1 or more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunks:
    """The text of all documents, concatenated and cut into rows."""

    pieces: Pieces
    packed: Packed  # of pieces


def best_fit(lengths: NDArray[np.integer[Any]], capacity: int) -> Packed:
    """Pack documents of 1..capacity tokens without cutting any; lengths is [documents].

    The number of rows is that of best-fit decreasing, one document at a time. Equal lengths are
    placed in index order. Raises DataError for a document that is empty or too long: `pieces` cuts
    long ones and leaves out empty ones.
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
    """Cut the concatenated text of all documents every `capacity` tokens.

    All rows but the last are full. Empty documents leave no piece.
    """
    lengths = _documents(lengths, capacity)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.arange(0, total, capacity, dtype=np.int64)
    begins = ends - lengths
    edges = np.union1d(begins[lengths > 0], cuts)
    document = np.searchsorted(ends, edges, side="right")
    cut = Pieces(
        document=document,
        first=edges - begins[document],
        count=np.diff(edges, append=np.int64(total)),
    )
    starts = np.append(np.searchsorted(edges, cuts), len(edges))
    return Chunks(pieces=cut, packed=Packed(order=np.arange(len(edges)), starts=starts))


def pieces(lengths: NDArray[np.integer[Any]], capacity: int) -> Pieces:
    """Cut each document every `capacity` tokens; the last piece is the remainder.

    `best_fit(pieces(lengths, capacity).count, capacity)` then packs the pieces. Empty documents
    leave no piece.
    """
    lengths = _documents(lengths, capacity)
    counts = -(-lengths // capacity)
    document = np.repeat(np.arange(len(lengths)), counts)
    first = _ranges(np.zeros_like(counts), counts) * capacity
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
    """Return the row of each document, longest first; `lengths` are distinct and descending.

    Rows are numbered as they are opened. A row that takes one document of a length has the least
    room of all that fit another one, so it takes as many as fit. Open rows are stored as runs
    (first row, number of rows) by their room; a length splits at most two runs, and a run that
    takes a length is left with less than half its room, so there are few runs.
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

    for length, remaining in zip(lengths, counts, strict=True):
        while remaining:
            index = bisect_left(rooms, length)
            if index == len(rooms):
                opened = -(-remaining // (capacity // length))
                leave(capacity, rows, opened)
                rows += opened
            room = rooms[index]
            first, many = runs[room].pop()
            if not runs[room]:
                del runs[room], rooms[index]
            per_row = room // length
            full = min(many, remaining // per_row)
            placed.append((first, full, per_row))
            leave(room - per_row * length, first, full)
            remaining -= full * per_row
            if full < many and remaining:  # fewer than fill one row
                placed.append((first + full, 1, remaining))
                leave(room - remaining * length, first + full, 1)
                full, remaining = full + 1, 0
            leave(room, first + full, many - full)
    first_row, many_rows, documents = np.array(placed, dtype=np.int64).reshape(-1, 3).T
    return np.repeat(_ranges(first_row, many_rows), np.repeat(documents, many_rows))


def _ranges(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return first, first + 1, ..., `count` numbers, for each pair, concatenated."""
    ends = np.cumsum(count)
    return np.arange(count.sum()) + np.repeat(first - ends + count, count)


def _ordered(document: NDArray[np.int64], row: NDArray[np.int64]) -> Packed:
    """Return the rows in the order of Packed from pairs of a document and its row."""
    n = len(row)
    bits = n.bit_length()
    assert bits < 32, n  # a key holds two indices
    first = np.full(row.max(initial=-1) + 1, n)  # document of each row
    np.minimum.at(first, row, document)
    keys = (first[row] << bits) | document
    keys.sort()  # sort is several times faster than argsort
    starts = np.flatnonzero(np.append(n > 0, keys[1:] ^ keys[:-1] >= 1 << bits))
    keys &= (1 << bits) - 1
    return Packed(order=keys, starts=np.append(starts, n))
