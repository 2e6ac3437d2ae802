"""Makes rows of texts' tokens, a window of some millions at a time: as they are, packed or cut."""

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
# Tokens that are packed together. Half a row is lost at the end of each window: of rows of 2,048
# tokens a hundredth of a percent. What a killed process has to do again is at most this.
WINDOW: Final = 8 << 20
_GATHER: Final = 1 << 18  # tokens whose places are worked out at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How rows are made."""

    tokens: int | None = None  # of a row; None: one text a row
    strategy: Strategy = "best-fit"
    longest: int | None = None  # tokens of a row that is not packed: what is longer is cut off


@dataclass(slots=True)
class TextWindow:
    """Gathers texts' tokens until there are enough to make rows of. Not shared."""

    columns: Columns
    packing: Packing
    tokens: int = 0
    _ids: list[NDArray[Any]] = field(default_factory=list)
    _lengths: list[NDArray[np.int64]] = field(default_factory=list)
    _bytes: dict[str, list[NDArray[np.uint8]]] = field(default_factory=dict)
    _words: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, encoded: Encoded, words: Mapping[str, list[Any]]) -> None:
        """Add texts' tokens, with the label and the task of each."""
        self._ids.append(encoded.ids.astype(self.columns.dtype))
        self._lengths.append(encoded.lengths)
        for name, values in encoded.columns.items():
            self._bytes.setdefault(name, []).append(values)
        for name, each in words.items():
            self._words.setdefault(name, []).extend(each)
        self.tokens += len(encoded.ids)

    def take(self, *, is_last: bool = True) -> tuple[Rows, int]:
        """Return the rows of what was gathered and the tokens that were cut off; empty it.

        Of a text that is cut every so many tokens the last row waits for the next window, unless
        this `is_last`.
        """
        lengths = np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.int64)
        ids = np.concatenate(self._ids) if self._ids else np.zeros(0, self.columns.dtype)
        bytes_ = {name: np.concatenate(parts) for name, parts in self._bytes.items()}
        words = dict(self._words)
        self._ids, self._lengths, self._bytes, self._words = [], [], {}, {}
        if self.packing.strategy == "concat" and self.packing.tokens and not is_last:
            ids, lengths, bytes_ = self._kept(ids, lengths, bytes_)
        gathered = len(ids)
        self.tokens = sum(map(len, self._ids))
        cut, packed = self._cut(lengths)
        starts = np.cumsum(lengths) - lengths
        begins = (starts[cut.document] + cut.first)[packed.order]
        counts = cut.count[packed.order]
        documents = np.diff(packed.starts)
        ends = np.concatenate([[0], np.cumsum(counts)])
        rows = Rows(
            ids=_gathered(ids, begins, counts),
            lengths=np.diff(ends[packed.starts]),
            documents=counts.astype(np.int32),
            counts=documents,
            bytes_={
                self._name(name): _gathered(values, begins, counts)
                for name, values in bytes_.items()
            },
            words=words,
        )
        return rows, gathered - int(counts.sum())

    def _kept(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        bytes_: dict[str, NDArray[np.uint8]],
    ) -> tuple[NDArray[Any], NDArray[np.int64], dict[str, NDArray[np.uint8]]]:
        """Return what fills rows, and keep what is left for the next window."""
        assert self.packing.tokens is not None
        full = len(ids) - len(ids) % self.packing.tokens
        ends = np.cumsum(lengths)
        first = int(np.searchsorted(ends, full, side="right"))  # the document that goes on
        left = lengths[first:].copy()
        if len(left):
            left[0] = ends[first] - full
        self._ids, self._lengths = [ids[full:].copy()], [left]
        self._bytes = {name: [values[full:].copy()] for name, values in bytes_.items()}
        done = lengths[: first + 1].copy()
        if len(done) > first:
            done[first] -= left[0]
        return ids[:full], done, {name: values[:full] for name, values in bytes_.items()}

    def carried(self) -> dict[str, Any]:
        """Return what the next window begins with, as JSON holds it."""
        return {
            "ids": [each for part in self._ids for each in part.tolist()],
            "lengths": [each for part in self._lengths for each in part.tolist()],
            "bytes": {
                name: [each for part in parts for each in part.tolist()]
                for name, parts in self._bytes.items()
            },
        }

    def restore(self, carried: Mapping[str, Any]) -> None:
        """Begin with what another process carried."""
        if carried and carried["ids"]:
            self._ids = [np.array(carried["ids"], self.columns.dtype)]
            self._lengths = [np.array(carried["lengths"], np.int64)]
            self._bytes = {
                name: [np.array(each, np.uint8)] for name, each in carried["bytes"].items()
            }
            self.tokens = len(carried["ids"])

    def _name(self, column: str) -> str:
        return self.columns.mask or column if column == "loss_mask" else column

    def _cut(self, lengths: NDArray[np.int64]) -> tuple[Pieces, Packed]:
        tokens = self.packing.tokens
        if tokens is None:
            kept = (
                lengths if self.packing.longest is None else lengths.clip(max=self.packing.longest)
            )
            whole = Pieces(
                document=np.arange(len(lengths)), first=np.zeros_like(lengths), count=kept
            )
            return whole, Packed(order=np.arange(len(lengths)), starts=np.arange(len(lengths) + 1))
        if self.packing.strategy == "concat":
            chunks = concat(lengths, tokens)
            return chunks.pieces, chunks.packed
        cut = pieces(lengths, tokens)
        return cut, best_fit(cut.count, tokens)


def _gathered(
    values: NDArray[Any], begins: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[Any]:
    """Return runs of values, one after another, without an index of all of them in memory."""
    ends = np.cumsum(counts)
    found = np.empty(int(ends[-1]) if len(ends) else 0, values.dtype)
    at = 0
    while at < len(counts):
        done = int(ends[at - 1]) if at else 0
        stop = max(at + 1, int(np.searchsorted(ends, done + _GATHER, side="right")))
        places = np.repeat(begins[at:stop] - (ends - counts)[at:stop], counts[at:stop])
        places += np.arange(done, done + len(places))
        found[done : done + len(places)] = values[places]
        at = stop
    return found
