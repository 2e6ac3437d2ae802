"""Columns as the `datasets` library describes them, and the Arrow tables that they make.

Arrow has no type for a label with names, so the library stores its own description as JSON in the
schema, under the key `huggingface` (github huggingface/datasets, src/datasets/arrow_writer.py).
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Row", "label", "parquet", "sequence", "table", "value"]

Row = dict[str, Any]  # a record of a set, or the description of a column or of all columns

ARROW_TYPES = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "float64": pa.float64(),
}
ROWS_OF_A_GROUP = 1000


def value(dtype: str = "string") -> Row:
    """Return the description of a column of plain values."""
    return {"dtype": dtype, "_type": "Value"}


def label(*names: str) -> Row:
    """Return the description of a column of class numbers with names."""
    return {"names": list(names), "_type": "ClassLabel"}


def sequence(feature: Row) -> Row:
    """Return the description of a column of lists; a list of structs is stored as lists by name."""
    return {"feature": feature, "_type": "Sequence"}


def table(rows: Sequence[Row], columns: Row) -> pa.Table:
    """Return the rows as an Arrow table; other keys of the rows are left out."""
    metadata = json.dumps({"info": {"features": columns}}).encode()
    schema = pa.schema(
        [(name, _arrow_type(feature)) for name, feature in columns.items()],
        metadata={b"huggingface": metadata},
    )
    records = [{name: row.get(name) for name in columns} for row in rows]
    return pa.Table.from_pylist(records, schema=schema)


def parquet(rows: Sequence[Row], columns: Row) -> bytes:
    """Return the rows as the content of a parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table(rows, columns), buffer, row_group_size=ROWS_OF_A_GROUP)
    return buffer.getvalue()


def _arrow_type(feature: Any) -> pa.DataType:
    if isinstance(feature, list):
        return pa.list_(_arrow_type(feature[0]))
    match feature.get("_type"):
        case "Value":
            return ARROW_TYPES[feature["dtype"]]
        case "ClassLabel":
            return pa.int64()
        case "Translation":
            return pa.struct([(language, pa.string()) for language in feature["languages"]])
        case "Sequence":
            return _sequence_type(feature["feature"])
        case _:
            return pa.struct([(name, _arrow_type(part)) for name, part in feature.items()])


def _sequence_type(feature: Row) -> pa.DataType:
    """Return a list type, or a struct of lists where the elements are structs."""
    if "_type" in feature:
        return pa.list_(_arrow_type(feature))
    return pa.struct([(name, pa.list_(_arrow_type(part))) for name, part in feature.items()])
