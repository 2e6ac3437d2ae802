import builtins
import bz2
import csv
import gzip
import io
import json

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from hotloop.data.discovery import row_count
from hotloop.data.discovery.results import DataFile
from hotloop.data.discovery.row_count import LARGEST, ReadBudget, count_rows
from hotloop.data.readers import counting

TABLE = pyarrow.table({"text": [str(n) for n in range(1000)]})


@pytest.fixture
def rows(tmp_path):
    """Count the rows of some bytes: rows(b"...", "csv.gz", budget)."""

    def count(data, format, budget=None):
        path = tmp_path / "file"
        path.write_bytes(data)
        used = budget or ReadBudget()
        file = DataFile(path=path, split="train", format=format, bytes=len(data), used=0.0)
        found = count_rows(file, used)
        assert budget is not None or used.faults == []
        return found

    return count


@pytest.mark.parametrize(
    ("data", "format", "expected"),
    [
        (b'{"a": 1}\n{"a": 2}\n', "jsonl", 2),
        (b'\n{"a": 1}\r\n  \r\n{"a": 2}', "jsonl", 2),
        (b"", "jsonl", 0),
        (b"one\rtwo\r\n\nthree", "txt", 4),
        (b'a,b\n"x\ny",2\n\n3,4\n', "csv", 2),
        (b"a,b\n", "csv", 0),
        (b"", "csv", 0),
        (b'a\tb\n5\\"\t1\n', "tsv", 1),
        (b'[{"a": 1}, {"a": 2}, {"a": 3}]', "json", 3),
        (b'{"version": "1.1", "data": [{}, {}], "tags": ["a"]}', "json", 2),
        (b'{"a": [{}], "b": [{}]}', "json", None),
        (b"17", "json", None),
        (gzip.compress(b"x\n" * 7, mtime=0), "jsonl.gz", 7),  # part of the test's name
        (bz2.compress(b"x\n" * 7), "txt.bz2", 7),
        (pyarrow.compress(b"x\n" * 7, "zstd", asbytes=True), "jsonl.zst", 7),
    ],
)
def test_rows_are_what_a_reader_would_give(data, format, expected, rows):
    assert rows(data, format) == expected


def test_parquet_and_arrow_say_it_themselves(rows):
    sink = io.BytesIO()
    parquet.write_table(TABLE, sink, row_group_size=100)
    assert rows(sink.getvalue(), "parquet") == 1000
    for make in (ipc.new_file, ipc.new_stream):
        sink = io.BytesIO()
        with make(sink, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=300)
        assert rows(sink.getvalue(), "arrow") == 1000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text('a,"\n\r é', max_size=4), min_size=2, max_size=2), max_size=8))
def test_csv_is_counted_as_it_was_written(tmp_path_factory, table):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["one", "two"], *table])
    path = tmp_path_factory.mktemp("c") / "t.csv"
    path.write_bytes(data := text.getvalue().encode())
    file = DataFile(path=path, split="train", format="csv", bytes=len(data), used=0.0)
    assert count_rows(file, ReadBudget()) == len(table)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"{}", b" ", b"", b"a b"]), max_size=9), st.integers(1, 7))
def test_where_chunks_end_does_not_matter(tmp_path_factory, lines, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_CHUNK", chunk)
        path = tmp_path_factory.mktemp("c") / "t.jsonl"
        path.write_bytes(data := b"\r\n".join(lines))
        file = DataFile(path=path, split="train", format="jsonl", bytes=len(data), used=0.0)
        assert count_rows(file, ReadBudget()) == sum(bool(line.strip()) for line in lines)


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=200),
    st.sampled_from(["jsonl", "json", "csv", "tsv.gz", "txt.bz2", "json.zst", "parquet", "arrow"]),
)
def test_any_bytes_are_counted_or_named(tmp_path_factory, data, format):
    path = tmp_path_factory.mktemp("c") / "t"
    path.write_bytes(data)
    file, budget = (
        DataFile(path=path, split="train", format=format, bytes=len(data), used=0.0),
        ReadBudget(),
    )
    assert (
        count_rows(file, budget) is not None or budget.faults or format[:3] in ("jso", "csv", "tsv")
    )


def test_a_damaged_file_is_named(rows, tmp_path):
    budget = ReadBudget()
    assert rows(gzip.compress(b"x\n" * 999)[:-9], "jsonl.gz", budget) is None
    assert rows(b"[1, 2", "json", budget) is None
    assert rows(b"[" * 100_000, "json", budget) is None
    assert rows(b"PAR1 and no more", "parquet", budget) is None
    assert rows(b"", "arrow", budget) is None
    assert len(budget.faults) == 5
    assert all(str(tmp_path / "file") in fault for fault in budget.faults)


def test_a_large_file_is_not_read(rows, tmp_path):
    budget = ReadBudget()
    path = tmp_path / "not there"  # so it would be a fault, were it opened
    for size, faults in ((LARGEST + 1, 0), (LARGEST, 1)):
        file = DataFile(path=path, split="train", format="jsonl", bytes=size, used=0.0)
        assert count_rows(file, budget) is None
        assert len(budget.faults) == faults
    assert rows(b"[1]" + b" " * (LARGEST // 8), "json", budget) is None
    assert len(budget.faults) == 1


def test_a_small_file_that_becomes_a_large_one_is_given_up(rows, monkeypatch):
    monkeypatch.setattr(row_count, "LARGEST", 1 << 20)
    budget = ReadBudget()
    assert rows(gzip.compress(b"\0" * (2 << 20)), "txt.gz", budget) is None
    assert budget.faults == []


def test_a_line_without_end_is_given_up(rows, monkeypatch):
    monkeypatch.setattr(counting, "_LONGEST", 10)
    monkeypatch.setattr(counting, "_CHUNK", 4)
    assert rows(b"x" * 100, "jsonl") is None


def test_a_field_that_is_too_large_for_csv_is_no_fault(rows):
    assert rows(b"a,b\n" + b"x" * 200_000 + b",1\n", "csv") is None


def test_all_files_together_have_a_budget(rows):
    budget = ReadBudget(10)
    assert [rows(b"a\nb\n", "txt", budget) for _ in range(4)] == [2, 2, None, None]
    assert budget.left == 2


def test_without_pyarrow_it_is_said_what_is_needed(rows, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name, name="pyarrow")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    budget = ReadBudget()
    assert rows(b"PAR1", "parquet", budget) is None
    assert rows(b"x", "txt.zst", budget) is None
    assert rows(json.dumps([1]).encode(), "json", budget) == 1
    assert (budget.without, budget.faults) == ({"pyarrow"}, [])
