"""Store rows of tokens in an Arrow stream file: append batch by batch, read memory-mapped.

Columns: input_ids (uint16 if the vocabulary allows, else int32), seq_lengths (tokens of each
document of a row, which give boundaries and positions), a loss mask and token_type_ids where there
are any (uint8), label and task. The names are those that TRL reads; `datasets` opens folders of
such files.
Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format (2026-11).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.errors import DataError, DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["END", "Columns", "Rows", "TokenFile", "features", "head", "mapped", "message"]

END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a file of rows, beside input_ids."""

    is_narrow: bool  # ids are uint16, else int32
    is_packed: bool = False  # a row may hold several documents: seq_lengths
    mask: str | None = None  # the name of the loss mask
    has_types: bool = False  # token_type_ids
    label: str | None = None  # "int64" or "string"
    has_task: bool = False
    has_report: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of ids."""
        return np.dtype(np.uint16 if self.is_narrow else np.int32)

    def names(self) -> dict[str, tuple[str, bool]]:
        """Return name -> (type, whether it is a list) in the order of the file."""
        types = {"input_ids": (self.dtype.name, True)}
        if self.is_packed:
            types["seq_lengths"] = ("int32", True)
        if self.mask is not None:
            types[self.mask] = ("uint8", True)
        if self.has_types:
            types["token_type_ids"] = ("uint8", True)
        if self.label is not None:
            types["label"] = (self.label, False)
        if self.has_task:
            types["task"] = ("string", False)
        if self.has_report:
            types["report"] = ("string", False)
        return types


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Some rows, as they are written into one record batch."""

    ids: NDArray[Any]  # [tokens]
    lengths: NDArray[np.int64]  # [rows], tokens of each row
    documents: NDArray[np.int32]  # [documents], tokens of each document
    counts: NDArray[np.int64]  # [rows], documents of each row
    bytes_: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # loss mask, type ids
    words: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # label, task: [rows]


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise DeviceError(
            f"tokens are kept in Arrow files, and pyarrow cannot be imported ({error}): "
            "pip install 'hotloop[data]'"
        ) from error
    return pyarrow


def _schema(columns: Columns) -> Any:
    pa = _arrow()
    fields = [
        (name, pa.list_(getattr(pa, kind)()) if is_list else getattr(pa, kind)())
        for name, (kind, is_list) in columns.names().items()
    ]
    return pa.schema(fields)


def features(columns: Columns) -> dict[str, object]:
    """Return the features of dataset_info.json, as `datasets` 5 writes them."""
    value = {name: {"dtype": kind, "_type": "Value"} for name, (kind, _) in columns.names().items()}
    return {
        name: {"feature": value[name], "_type": "List"} if is_list else value[name]
        for name, (_, is_list) in columns.names().items()
    }


def head(columns: Columns) -> bytes:
    """Return the first bytes of a file, its schema."""
    return bytes(_schema(columns).serialize())


def message(columns: Columns, rows: Rows) -> memoryview:
    """Return the record batch of some rows, to be appended."""
    pa = _arrow()

    def listed(values: NDArray[Any], lengths: NDArray[np.int64]) -> Any:
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return pa.ListArray.from_arrays(_flat(offsets), _flat(values))

    arrays = []
    for name, (kind, is_list) in columns.names().items():
        if name == "input_ids":
            arrays.append(listed(rows.ids, rows.lengths))
        elif name == "seq_lengths":
            arrays.append(listed(rows.documents, rows.counts))
        elif is_list:
            arrays.append(listed(rows.bytes_[name], rows.lengths))
        else:
            arrays.append(pa.array(rows.words[name], getattr(pa, kind)()))
    batch = pa.record_batch(arrays, schema=_schema(columns))
    return memoryview(batch.serialize(memory_pool=pa.system_memory_pool()))


def _flat(values: NDArray[Any]) -> Any:
    """Return values as an Arrow array; `pyarrow.array` would import pandas, which takes 50 MB."""
    pa = _arrow()
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def mapped(path: Path) -> tuple[Any, Any]:
    """Return the memory-mapped bytes of a stream, and its table; DataError if it is not one."""
    pa = _arrow()
    try:
        with pa.memory_map(str(path)) as source:
            buffer = source.read_buffer()
        return buffer, pa.ipc.open_stream(buffer).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as an Arrow stream: {error}") from error


class TokenFile:
    """A file of rows, memory-mapped and read without a copy."""

    def __init__(self, path: Path) -> None:
        _, self._table = mapped(path)
        batches = self._table.to_batches()
        self.rows: int = self._table.num_rows
        self.names: tuple[str, ...] = tuple(self._table.column_names)
        self.firsts = np.cumsum([0, *(batch.num_rows for batch in batches)])  # row of each batch
        self._batches = batches
        self._lists: dict[tuple[int, str], tuple[NDArray[Any], NDArray[np.int32]]] = {}

    def batches(self) -> range:
        """Return the indices of the record batches."""
        return range(len(self._batches))

    def listed(self, batch: int, name: str) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the values [n] and the offsets [rows + 1] of a list column of one batch."""
        key = (batch, name)
        if key not in self._lists:
            column = self._batches[batch].column(name)
            self._lists[key] = (
                column.values.to_numpy(zero_copy_only=True),
                column.offsets.to_numpy(zero_copy_only=True),
            )
        return self._lists[key]

    def words(self, name: str) -> list[Any]:
        """Return a column of single values."""
        values: list[Any] = self._table.column(name).to_pylist()
        return values
