"""Make rows of texts' tokens, a window of some million tokens at a time: as is, packed or cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hotloop.data.tokenising.arrow_file import Columns, Rows
from hotloop.data.tokenising.packing import Packed, Pieces, best_fit, concat, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hotloop.data.tokenising.encode import Encoded

__all__ = ["WINDOW", "Packing", "Strategy", "TextWindow"]

Strategy = Literal["best-fit", "concat"]
# Tokens that are packed together. Half a row is lost at the end of each window, for rows of 2,048
# tokens a hundredth of a percent. A killed process has to repeat at most one window.
WINDOW: Final = 8 << 20
_GATHER: Final = 1 << 18  # tokens whose indices are computed at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How to make rows."""

    tokens: int | None = None  # of a row; None: one text a row
    strategy: Strategy = "best-fit"
    longest: int | None = None  # tokens of a row that is not packed; the rest is cut off


@dataclass(slots=True)
class TextWindow:
    """Collect texts' tokens until there are enough to make rows of them. Not thread-safe."""

    columns: Columns
    packing: Packing
    tokens: int = 0
    _ids: list[NDArray[Any]] = field(default_factory=list)
    _lengths: list[NDArray[np.int64]] = field(default_factory=list)
    _bytes: dict[str, list[NDArray[np.uint8]]] = field(default_factory=dict)
    _words: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, encoded: Encoded, words: Mapping[str, list[Any]]) -> None:
        """Add texts' tokens, with the label and the task of each text."""
        self._ids.append(encoded.ids.astype(self.columns.dtype))
        self._lengths.append(encoded.lengths)
        for name, values in encoded.columns.items():
            self._bytes.setdefault(name, []).append(values)
        for name, column in words.items():
            self._words.setdefault(name, []).extend(column)
        self.tokens += len(encoded.ids)

    def take(self, *, is_last: bool = True) -> tuple[Rows, int]:
        """Return the rows of the window and the number of tokens cut off; empty the window.

        With the strategy "concat", an incomplete last row waits for the next window, unless this
        `is_last`.
        """
        lengths = np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.int64)
        ids = np.concatenate(self._ids) if self._ids else np.zeros(0, self.columns.dtype)
        bytes_ = {name: np.concatenate(arrays) for name, arrays in self._bytes.items()}
        words = dict(self._words)
        self._ids, self._lengths, self._bytes, self._words = [], [], {}, {}
        if self.packing.strategy == "concat" and self.packing.tokens and not is_last:
            ids, lengths, bytes_ = self._full_rows(ids, lengths, bytes_)
        gathered = len(ids)
        self.tokens = sum(map(len, self._ids))
        cut, packed = self._cut(lengths)
        starts = np.cumsum(lengths) - lengths
        begins = (starts[cut.document] + cut.first)[packed.order]
        counts = cut.count[packed.order]
        documents = np.diff(packed.starts)
        ends = np.concatenate([[0], np.cumsum(counts)])
        rows = Rows(
            ids=_gather(ids, begins, counts),
            lengths=np.diff(ends[packed.starts]),
            documents=counts.astype(np.int32),
            counts=documents,
            bytes_={
                self._name(name): _gather(values, begins, counts) for name, values in bytes_.items()
            },
            words=words,
        )
        return rows, gathered - int(counts.sum())

    def _full_rows(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        bytes_: dict[str, NDArray[np.uint8]],
    ) -> tuple[NDArray[Any], NDArray[np.int64], dict[str, NDArray[np.uint8]]]:
        """Return the part that fills rows, and keep the rest for the next window."""
        assert self.packing.tokens is not None
        full = len(ids) - len(ids) % self.packing.tokens
        ends = np.cumsum(lengths)
        first = int(np.searchsorted(ends, full, side="right"))  # the document that goes on
        rest = lengths[first:].copy()
        if len(rest):
            rest[0] = ends[first] - full
        self._ids, self._lengths = [ids[full:].copy()], [rest]
        self._bytes = {name: [values[full:].copy()] for name, values in bytes_.items()}
        done = lengths[: first + 1].copy()
        if len(done) > first:
            done[first] -= rest[0]
        return ids[:full], done, {name: values[:full] for name, values in bytes_.items()}

    def carried(self) -> dict[str, Any]:
        """Return the start of the next window, as JSON values."""
        return {
            "ids": [value for array in self._ids for value in array.tolist()],
            "lengths": [value for array in self._lengths for value in array.tolist()],
            "bytes": {
                name: [value for array in arrays for value in array.tolist()]
                for name, arrays in self._bytes.items()
            },
        }

    def restore(self, carried: Mapping[str, Any]) -> None:
        """Begin with the tokens that another process carried over."""
        if carried and carried["ids"]:
            self._ids = [np.array(carried["ids"], self.columns.dtype)]
            self._lengths = [np.array(carried["lengths"], np.int64)]
            self._bytes = {
                name: [np.array(values, np.uint8)] for name, values in carried["bytes"].items()
            }
            self.tokens = len(carried["ids"])

    def _name(self, column: str) -> str:
        return self.columns.mask or column if column == "loss_mask" else column

    def _cut(self, lengths: NDArray[np.int64]) -> tuple[Pieces, Packed]:
        tokens = self.packing.tokens
        if tokens is None:
            counts = (
                lengths if self.packing.longest is None else lengths.clip(max=self.packing.longest)
            )
            whole = Pieces(
                document=np.arange(len(lengths)), first=np.zeros_like(lengths), count=counts
            )
            return whole, Packed(order=np.arange(len(lengths)), starts=np.arange(len(lengths) + 1))
        if self.packing.strategy == "concat":
            chunks = concat(lengths, tokens)
            return chunks.pieces, chunks.packed
        cut = pieces(lengths, tokens)
        return cut, best_fit(cut.count, tokens)


def _gather(
    values: NDArray[Any], begins: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[Any]:
    """Return runs of values, concatenated, without an index of all of them in memory."""
    ends = np.cumsum(counts)
    output = np.empty(int(ends[-1]) if len(ends) else 0, values.dtype)
    start = 0
    while start < len(counts):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _GATHER, side="right")))
        places = np.repeat(begins[start:stop] - (ends - counts)[start:stop], counts[start:stop])
        places += np.arange(done, done + len(places))
        output[done : done + len(places)] = values[places]
        start = stop
    return output
