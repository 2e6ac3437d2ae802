"""Read records that are stored by columns: Parquet files, Arrow files and Arrow streams.

Nothing in a file is trusted: a batch is validated in full before its values are converted.
"""

from __future__ import annotations

import json
import mmap
import os
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import NOT_UTF8, RowLocation, not_utf8
from hotloop.data.readers.clean_text import refuse
from hotloop.data.readers.portions import PORTION_BYTES, Format, Portion
from hotloop.data.readers.text_lines import LONGEST, TORN, need

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Record, RecordFile

__all__ = ["ARROW", "PARQUET", "portions", "rows"]

_MAGIC = b"ARROW1"  # of an Arrow file: https://arrow.apache.org/docs/format/Columnar.html (2026-11)
_ROWS = 1024  # converted at once, at most
_BYTES = 4 << 20  # converted at once, at most

_Chunk = tuple[int, int, int]  # rows, bytes and file offset of a row group or batch


def portions(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield portions of as many row groups (Parquet) or batches (Arrow) as make `size` bytes.

    Rows behind a break in the file make one portion with a fault. Raises DataError for a file that
    is not of its format or has two columns of one name, DeviceError without pyarrow.
    """
    del longest  # no limit: the file states the size of each row group
    chunks = _chunks(source)
    first = index = row = rows = bytes = offset = 0
    fault: tuple[str, str, int] | None = None
    while True:
        try:
            chunk = next(chunks, None)
        except _errors() as error:
            chunk, fault = None, (TORN, f"nothing from here on can be read: {_first(error)}", 0)
        if rows and (chunk is None or bytes >= size):
            yield _portion(source, row=row, parts=(first, index), offset=offset)
            first, row, rows, bytes = index, row + rows, 0, 0
        if chunk is None:
            break
        offset = offset if index > first else chunk[2]
        rows, bytes, index = rows + chunk[0], bytes + chunk[1], index + 1
    if fault is not None:
        yield _portion(source, row=row, fault=fault)


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield the rows of a portion; a row, or a remainder, that cannot be read is a fault."""
    row, batches = portion.row, _batches(portion)
    while True:
        try:
            batch = next(batches, None)
            if batch is not None:
                batch.validate()  # only that its buffers exist: values are checked later
        except _errors() as error:
            why = f"the rows from here on cannot be read: {_first(error)}"
            faults.add(RowLocation(portion.name, row=row), TORN, why)
            return
        if batch is None:
            return
        step = _step(batch.num_rows, batch.get_total_buffer_size())
        for start in range(0, batch.num_rows, step):
            yield from _records(batch.slice(start, step), portion.name, row + start, faults)
        row += batch.num_rows


def _portion(source: RecordFile, **rest: Any) -> Portion:
    return Portion(file=str(source.path), name=source.name, format=source.format, **rest)


def _step(rows: int, bytes: int) -> int:
    return max(1, min(_ROWS, rows * _BYTES // max(bytes, 1)))


def _errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that pyarrow raises for files and values that it cannot read."""
    return need("pyarrow").ArrowException, OSError, ValueError, ArithmeticError


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _mapped(file: str) -> Any:
    return need("pyarrow").memory_map(os.fsencode(file))  # a name need not be UTF-8


def _is_file(path: str) -> bool:
    """Return whether it is an Arrow file; else it should be a stream, as `datasets` writes."""
    with open(path, "rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _chunks(source: RecordFile) -> Iterator[_Chunk]:
    """Check that a file can be opened, and yield its row groups or batches."""
    path = str(source.path)
    try:
        with source.path.open("rb"):
            pass  # so that the error gives the system's own reason
    except OSError as error:
        refuse(error, path)
    try:
        if source.format == PARQUET.name:
            about = need("pyarrow.parquet").ParquetFile(_mapped(path))
            names, chunks = about.schema_arrow.names, _groups(about.metadata)
        elif _is_file(path):
            about = need("pyarrow.ipc").open_file(_mapped(path))
            names, chunks = about.schema.names, _file_batches(about)
        else:
            names = need("pyarrow.ipc").read_schema(_mapped(path)).names
            chunks = _stream_batches(path)
    except _errors() as error:
        raise DataError(
            f"{source.name} cannot be read as {source.format}: {_first(error)}; write it again, or "
            "give it the ending of the format that it is"
        ) from error
    _check_names(names, source.name)
    return chunks


def _check_names(names: Sequence[str], file: str) -> None:
    for column, name in enumerate(names):
        if names.index(name) < column:
            raise DataError(f"{file}: two columns are named {name!r}; rename one")


def _groups(about: Any) -> Iterator[_Chunk]:
    for index in range(about.num_row_groups):
        group = about.row_group(index)
        yield group.num_rows, group.total_byte_size, 0


def _file_batches(reader: Any) -> Iterator[_Chunk]:
    for index in range(reader.num_record_batches):
        batch = reader.get_batch(index)
        yield batch.num_rows, batch.get_total_buffer_size(), 0


def _stream_batches(path: str) -> Iterator[_Chunk]:
    """Yield the batches with their offsets, so that each can be read without those before.

    A stream with dictionaries is read in order instead: all offsets are 0.
    """
    ipc, file = need("pyarrow.ipc"), _mapped(path)
    messages = ipc.MessageReader.open_stream(file)
    messages.read_next_message()
    schema, begin = ipc.read_schema(_mapped(path)), file.tell()
    for message in messages:
        if message.type == "dictionary":
            yield from (
                (batch.num_rows, batch.get_total_buffer_size(), 0) for batch in _stream(path)
            )
            return
        batch = ipc.read_record_batch(message, schema)
        yield batch.num_rows, file.tell() - begin, begin
        begin = file.tell()


def _stream(path: str) -> Any:
    return need("pyarrow.ipc").open_stream(_mapped(path))


def _batches(portion: Portion) -> Iterator[Any]:
    ipc, first, stop = need("pyarrow.ipc"), *portion.parts
    if portion.format == PARQUET.name:
        about = need("pyarrow.parquet").ParquetFile(_mapped(portion.file))
        groups = [about.metadata.row_group(index) for index in range(first, stop)]
        step = _step(sum(g.num_rows for g in groups), sum(g.total_byte_size for g in groups))
        yield from about.iter_batches(step, row_groups=range(first, stop), use_threads=False)
    elif _is_file(portion.file):
        reader = ipc.open_file(_mapped(portion.file))
        yield from (reader.get_batch(index) for index in range(first, stop))
    elif portion.offset:
        file = _mapped(portion.file)
        schema = ipc.read_schema(file)
        file.seek(portion.offset)
        for _ in range(first, stop):
            yield ipc.read_record_batch(ipc.read_message(file), schema)
    else:
        yield from islice(_stream(portion.file), first, stop)


def _records(batch: Any, name: str, row: int, faults: Faults) -> Iterator[Record]:
    try:
        values = _values(batch)
    except _errors():
        for index in range(batch.num_rows):
            place = RowLocation(name, row=row + index)
            record = _only_record(batch.slice(index, 1), place, faults)
            if record is not None:
                yield place, record
    else:
        yield from (
            (RowLocation(name, row=row + index), value) for index, value in enumerate(values)
        )


def _values(batch: Any) -> list[dict[str, Any]]:
    """Return the rows; raises pyarrow's errors, also for offsets that lead out of the data."""
    batch.validate(full=True)
    names = batch.schema.names
    columns = [column.to_pylist() for column in batch.columns]
    for name, classes in _class_names((batch.schema.metadata or {}).get(b"huggingface")).items():
        if name in names:
            column = names.index(name)
            columns[column] = [_class(value, classes) for value in columns[column]]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@cache
def _class_names(about: bytes | None) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of each column of labels, as `datasets` keeps them.

    `about` is its entry of a schema, as of
    https://huggingface.co/docs/datasets/about_dataset_features (2026-11).
    """
    try:
        features = json.loads(about or b"{}")["info"]["features"]
        items = [item for item in features.items() if isinstance(item[1], dict)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # of another program
    found = {}
    for name, feature in items:
        words = feature.get("names")
        is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if feature.get("_type") == "ClassLabel" and is_list:
            found[name] = tuple(words)
    return found


def _class(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class; None for the -1 that stands for no label."""
    if not isinstance(value, int) or value >= len(names):
        return value
    return names[value] if value >= 0 else None


def _only_record(batch: Any, place: RowLocation, faults: Faults) -> dict[str, Any] | None:
    """Return a batch's only row. Text that is not UTF-8 is replaced, or the row is a fault."""
    try:
        return _values(batch)[0]
    except _errors() as error:
        why = _first(error)
    try:
        value = _values(_as_bytes(batch))[0]
    except _errors():
        faults.add(place, "unreadable", f"the row cannot be read: {why}")
        return None
    bad: tuple[str, UnicodeDecodeError] | None = None
    for key, data in value.items():
        if isinstance(data, bytes) and _is_text(batch.schema.field(key).type):
            try:
                value[key] = data.decode()
            except UnicodeDecodeError as error:
                bad = bad or (key, error)
                value[key] = data.decode(errors="replace")
    if bad is not None:
        place = place._replace(key=bad[0])
        if not faults.add(place, NOT_UTF8, not_utf8(bad[1]), replaceable=True):
            return None
    return value


def _is_text(kind: Any) -> bool:
    types = need("pyarrow.types")
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _as_bytes(batch: Any) -> Any:
    """Return the batch with its text columns as bytes, which need not be UTF-8."""
    pa = need("pyarrow")
    columns = [
        column.cast(pa.large_binary()) if _is_text(column.type) else column
        for column in batch.columns
    ]
    pairs = zip(batch.schema.names, columns, strict=True)
    fields = [pa.field(name, column.type) for name, column in pairs]
    return pa.RecordBatch.from_arrays(
        columns, schema=pa.schema(fields, metadata=batch.schema.metadata)
    )


def _count_parquet(stream: BinaryIO) -> int:
    import pyarrow
    from pyarrow import parquet

    try:
        return int(parquet.ParquetFile(stream).metadata.num_rows)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from error


def _count_arrow(stream: BinaryIO) -> int:
    import pyarrow
    from pyarrow import ipc

    try:
        view = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        source = pyarrow.BufferReader(pyarrow.py_buffer(view))
        if view[: len(_MAGIC)] == _MAGIC:
            reader = ipc.open_file(source)
            return sum(reader.get_batch(n).num_rows for n in range(reader.num_record_batches))
        return sum(batch.num_rows for batch in ipc.open_stream(source))
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from error


PARQUET: Final = Format(
    name="parquet",
    suffixes=(".parquet",),
    portions=portions,
    rows=rows,
    count=_count_parquet,
    is_columnar=True,
)
ARROW: Final = Format(
    name="arrow",
    suffixes=(".arrow",),
    portions=portions,
    rows=rows,
    count=_count_arrow,
    is_columnar=True,
)
