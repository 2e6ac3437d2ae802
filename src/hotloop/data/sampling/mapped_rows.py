"""Locate rows of an Arrow file of tokens in one flat view of the mapped file.

An Arrow stream stores a column in one buffer for each record batch. All buffers are in one file, so
rows of any batches can be gathered with one index into a view of the whole file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.errors import DataError
from hotloop.data.tokenising.arrow_file import mapped

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["MASKS", "Located", "RowMap"]

MASKS: Final = ("completion_mask", "assistant_masks")  # columns that mark tokens with loss

# The record batch of each row ([rows], or the only one), and the row's index in it, [rows].
Located = tuple[Any, "NDArray[np.int64]"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Column:
    """The location of a list column; all arrays are [record batches]."""

    view: NDArray[Any]  # the whole file as values of the column
    values: NDArray[np.int64]  # index of the first value in that view
    offsets: NDArray[np.int64]  # index of the first offset in the file as int32


class RowMap:
    """The rows of one split, memory-mapped; only gathered rows are copied."""

    def __init__(self, path: Path) -> None:
        """Map a file of `arrow_file`; DataError if it is not one, or is compressed."""
        self._buffer, table = mapped(path)
        self._path, self._batches = path, table.to_batches()
        self._file = np.frombuffer(self._buffer, np.uint8)
        self._int32 = self._as(np.dtype(np.int32))
        self._firsts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._columns: dict[str, _Column] = {}
        self.rows: int = table.num_rows
        self.names: tuple[str, ...] = tuple(table.column_names)

    def view(self, name: str) -> NDArray[Any]:
        """Return the whole file as values of a column; `spans` returns indices into it."""
        return self._column(name).view

    def locate(self, rows: NDArray[np.int64]) -> Located:
        """Return the locations of rows of the file, for `spans` and `beside`."""
        if len(self._batches) == 1:
            return 0, rows
        batch = self._firsts.searchsorted(rows, side="right") - 1
        return batch, rows - self._firsts[batch]

    def spans(self, name: str, located: Located) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the start of each row's values in the view, and their number; both [rows]."""
        column, (batch, row) = self._column(name), located
        place = column.offsets[batch] + row
        first = self._int32[place]
        place += 1
        return column.values[batch] + first, (self._int32[place] - first).astype(np.int64)

    def beside(
        self, name: str, begins: NDArray[np.int64], located: Located, *, other: str = "input_ids"
    ) -> NDArray[np.int64]:
        """Return the starts of rows in a column that has as many values in each row as `other`."""
        return begins + (self._column(name).values - self._column(other).values)[located[0]]

    def counts(self, name: str) -> NDArray[np.int32]:
        """Return the number of values of a list column in each row of the file, [rows]."""
        column, counts = self._column(name), np.empty(self.rows, np.int32)
        for batch, offset in enumerate(column.offsets.tolist()):
            first, last = self._firsts[batch : batch + 2]
            np.subtract(
                self._int32[offset + 1 : offset + 1 + last - first],
                self._int32[offset : offset + last - first],
                out=counts[first:last],
            )
        return counts

    def largest(self, name: str) -> int:
        """Return the largest value of a list column; -1 if it has none."""
        values = (batch.column(name).values.to_numpy() for batch in self._batches)
        return max((int(array.max()) for array in values if len(array)), default=-1)

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            self._columns[name] = self._located(name)
        return self._columns[name]

    def _located(self, name: str) -> _Column:
        values, offsets, dtype = [], [], np.dtype(np.uint8)
        for batch in self._batches:
            column = batch.column(name)
            array = column.values.to_numpy(zero_copy_only=True)
            dtype = array.dtype
            values.append(self._place(array) // dtype.itemsize if len(array) else 0)
            offsets.append(self._place(column.offsets.to_numpy(zero_copy_only=True)) // 4)
        return _Column(
            view=self._as(dtype),
            values=np.array(values, np.int64),
            offsets=np.array(offsets, np.int64),
        )

    def _place(self, values: NDArray[Any]) -> int:
        """Return the byte offset of values in the file."""
        place = int(values.__array_interface__["data"][0]) - int(self._buffer.address)
        if not 0 <= place <= len(self._file) - values.nbytes or place % values.itemsize:
            raise DataError(
                f"{self._path} has values that are not in the file as they are (compressed, or "
                "unaligned); make it with hotloop data tokenize"
            )
        return place

    def _as(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._file[: len(self._file) // dtype.itemsize * dtype.itemsize].view(dtype)
