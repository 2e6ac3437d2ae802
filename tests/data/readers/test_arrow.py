import math
import os
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.readers import arrow
from hotloop.data.readers.arrow import portions, rows
from hotloop.data.readers.bad_rows import NOT_UTF8, Faults, RowLocation
from hotloop.data.readers.portions import RecordFile
from hotloop.data.readers.records import find_sources, records
from hotloop.data.readers.text_lines import TORN

VALUES = [
    {"text": "é" * n if n % 3 else None, "n": n, "share": n / 7, "tags": ["a"] * (n % 3)}
    for n in range(100)
]
TABLE = pa.Table.from_pylist(VALUES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("columns")


def parquet(path, table):
    pa.parquet.write_table(table, path, row_group_size=9)


def arrow_file(path, table):
    with pa.ipc.new_file(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=9)


def arrow_stream(path, table):
    with pa.ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=9)


def packed_stream(path, table):
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(path, table.schema, options=packed) as sink:
        sink.write_table(table, max_chunksize=9)


WRITERS = [parquet, arrow_file, arrow_stream, packed_stream]
written_by = pytest.mark.parametrize("write", WRITERS)


def source(folder, table, write):
    path = folder / f"a.{'parquet' if write is parquet else 'arrow'}"
    if callable(write):
        write(path, table)
    return found(path)


def found(path):
    size, format = path.stat().st_size, path.suffix[1:]
    return RecordFile(path=path, name="a", split="train", format=format, bytes=size)


def read(source, policy="skip", **options):
    faults = Faults(policy)
    records = []
    for portion in portions(source, **options):
        if portion.fault is None:
            records += rows(portion, faults)
        else:
            faults.add(RowLocation(portion.name, row=portion.row), *portion.fault[:2])
    return records, faults


def numbered(values):
    return [(RowLocation("a", row=row), value) for row, value in enumerate(values)]


@written_by
@pytest.mark.parametrize("size", [1, 700, 1 << 20])
def test_rows_come_back_whatever_the_size_of_the_portions(folder, write, size):
    records, faults = read(source(folder, TABLE, write), size=size)
    assert records == numbered(VALUES)
    assert faults.count == 0


@written_by
def test_portions_are_read_by_themselves_in_any_order(folder, write):
    parts = list(portions(source(folder, TABLE, write), size=1))
    assert len(parts) == 12  # of nine rows, and a rest
    assert [part.row for part in parts] == list(range(0, 100, 9))
    backwards = [list(rows(part, Faults("stop"))) for part in reversed(parts)]
    assert [record for part in reversed(backwards) for record in part] == numbered(VALUES)


@pytest.mark.parametrize("write", [arrow_file, arrow_stream])
def test_values_kept_in_dictionaries_are_read(folder, write):
    table = TABLE.set_column(0, "text", TABLE["text"].dictionary_encode())
    records, _ = read(source(folder, table, write), size=1)
    assert records == numbered(VALUES)


def test_large_batches_are_made_into_rows_by_and_by(folder):
    table = pa.table({"text": ["x" * (1 << 20)] * 9})
    path = folder / "large.arrow"
    with pa.ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table.combine_chunks())
    part = next(iter(portions(found(path))))
    assert part.parts == (0, 1)
    assert arrow._step(9, 9 << 20) == 4
    assert len(list(rows(part, Faults("stop")))) == 9


def not_utf8(size=20, at=7):
    """A table whose column "text" has a value of bytes that are not UTF-8, in one row."""
    values = [b"\xc3\xa9%d" % n for n in range(size)]
    values[at] = b"a\xe2\x82"
    data = pa.array(values, type=pa.binary())
    text = pa.Array.from_buffers(pa.string(), size, data.buffers())
    return pa.table({"n": list(range(size)), "text": text})


@written_by
def test_text_that_is_not_utf8_is_named_and_the_rows_beside_it_are_kept(folder, write):
    good = [{"n": n, "text": f"é{n}"} for n in range(20)]
    records, faults = read(source(folder, not_utf8(), write))
    assert records == [record for record in numbered(good) if record[0].row != 7]
    assert [str(fault) for fault in faults.first] == [
        "a: row 7: text: 0xe2, unexpected end of data"
    ]
    good[7] = {"n": 7, "text": "a\ufffd"}
    records, faults = read(
        found(folder / f"a.{'parquet' if write is parquet else 'arrow'}"), "replace"
    )
    assert records == numbered(good)
    assert (faults.kinds, faults.replaced) == ({NOT_UTF8: 1}, 1)


def test_a_value_that_python_has_no_type_for_is_a_fault_of_its_row(folder):
    times = pa.array([0, 1 << 62, 0], type=pa.timestamp("s"))
    records, faults = read(source(folder, pa.table({"at": times}), arrow_stream))
    assert [place.row for place, _ in records] == [0, 2]
    assert (faults.first[0].kind, faults.first[0].place.row) == ("unreadable", 1)


def test_not_a_number_and_missing_values_are_values(folder):
    table = pa.table({"x": [math.nan, None]})
    (_, first), (_, second) = read(source(folder, table, parquet))[0]
    assert math.isnan(first["x"])
    assert second == {"x": None}


@pytest.mark.parametrize("write", [arrow_stream, packed_stream])
def test_a_torn_stream_gives_what_precedes_and_a_fault(folder, write):
    path = source(folder, TABLE, write).path
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    records, faults = read(found(path), size=1)
    assert records == numbered(VALUES)[: len(records)]
    assert len(records) >= 9
    assert faults.kinds == {TORN: 1}
    assert faults.first[0].place == RowLocation("a", row=len(records))


def test_a_page_that_is_damaged_costs_its_row_group_alone(folder):
    path = source(folder, TABLE, parquet).path
    about = pa.parquet.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    for at in range(about.data_page_offset, about.data_page_offset + about.total_compressed_size):
        data[at] = 0xFF
    path.write_bytes(data)
    records, faults = read(found(path), size=1)
    kept = [place.row for place, _ in records]
    assert set(kept) >= {*range(9), *range(18, 100)}
    assert all(value == VALUES[place.row] for place, value in records)
    assert faults.count >= 1


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("data", [b"hello", b'{"a": 1}\n' * 99, b"ARROW1\0\0junk", b"PAR1" * 9])
def test_a_file_of_another_format_is_refused(folder, suffix, data):
    path = folder / f"other.{suffix}"
    path.write_bytes(data)
    with pytest.raises(
        DataError, match=rf"a cannot be read as {suffix}: .*give it the ending of the format"
    ):
        read(found(path))


@written_by
def test_two_columns_of_one_name_are_refused(folder, write):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(DataError, match="a: two columns are named 'x'; rename one"):
        read(source(folder, table, write))


def test_a_file_that_is_not_there_is_named(folder):
    gone = RecordFile(path=folder / "gone.arrow", name="a", split="", format="arrow", bytes=1)
    with pytest.raises(DataError, match=r"cannot read .*gone\.arrow: No such file"):
        read(gone)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are not UTF-8")
@written_by
def test_file_names_that_are_not_utf8_are_read(tmp_path, write):
    old = source(tmp_path, TABLE, write).path
    path = tmp_path / os.fsdecode(b"\xff" + old.suffix.encode())
    old.rename(path)
    assert read(found(path))[0] == numbered(VALUES)


@written_by
@given(damage=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_damage_anywhere_gives_rows_faults_or_a_data_error(folder, write, damage):
    path = source(folder, not_utf8(30), write).path
    data = bytearray(path.read_bytes())
    for place, byte in damage:
        data[int(place * (len(data) - 1))] = byte
    path.write_bytes(data)
    try:
        records, _ = read(found(path), size=1)
    except DataError:
        return
    assert all(isinstance(value, dict) for _, value in records)


def labels(tmp_path, features, values, policy="stop"):
    import json

    about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    table = pa.table({"label": pa.array(values, pa.int64()), "other": [0] * len(values)})
    pyarrow.parquet.write_table(table.replace_schema_metadata(about), tmp_path / "a.parquet")
    (source,) = find_sources([str(tmp_path / "a.parquet")]).files
    return [row["label"] for _, row in records([source], Faults(policy))]


def test_labels_have_the_names_of_their_classes(tmp_path):
    named = {"_type": "ClassLabel", "names": ["no", "yes"]}
    unnamed = {"_type": "ClassLabel", "num_classes": 2}
    assert labels(tmp_path, {"label": named, "other": unnamed}, [1, 0, -1, 7]) == [
        *("yes", "no"),
        None,
        7,
    ]
    assert labels(tmp_path, {"label": unnamed}, [1, 0]) == [1, 0]
    assert labels(tmp_path, {"label": {"_type": "ClassLabel", "names": "ab"}}, [1]) == [1]
