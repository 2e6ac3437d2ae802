import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paths import SHARED

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import Faults, RowLocation
from hotloop.data.readers.records import find_sources, head, rows, work
from hotloop.data.tokenising.pipe_protocol import opened, packed
from hotloop.data.tokenising.worker_process import portion_of, question

datasets = pytest.importorskip("datasets")

VALUES = [{"text": f"é{n}\n" * (n % 4), "label": str(n)} for n in range(50)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


def read(path, policy="skip", format=None, size=1 << 20, **options):
    """The records and faults of a file whose portions went to another process and back."""
    (source,) = find_sources([str(path)], format=format).files
    faults, found = Faults(policy), []
    for portion in work(source, size=size, **options):
        part, (head, data) = Faults(policy), question(portion)
        found += rows(portion_of(*opened(packed(head, *data))), part)
        faults.merge(part.plain())
    return found, faults


def in_jsonl(path):
    path.write_text("".join(json.dumps(value) + "\n" for value in VALUES))


def in_json(path):
    path.write_text(json.dumps({"version": 1, "data": VALUES}, indent=1))


def in_csv(path):
    with path.open("w", newline="") as stream:
        out = csv.DictWriter(stream, ["text", "label"])
        out.writeheader()
        out.writerows(VALUES)


def in_tsv(path):
    with path.open("w", newline="") as stream:
        out = csv.DictWriter(stream, ["text", "label"], dialect="excel-tab")
        out.writeheader()
        out.writerows(VALUES)


def in_parquet(path):
    pa.parquet.write_table(pa.Table.from_pylist(VALUES), path, row_group_size=7)


def in_arrow(path):
    table = pa.Table.from_pylist(VALUES)
    with pa.ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=7)


WRITERS = {
    "jsonl": in_jsonl,
    "json": in_json,
    "csv": in_csv,
    "tsv": in_tsv,
    "parquet": in_parquet,
    "arrow": in_arrow,
}


@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_every_format_gives_the_same_records(folder, format, size):
    path = folder / f"same.{format}"
    WRITERS[format](path)
    found, faults = read(path, size=size)
    assert [value for _, value in found] == VALUES
    assert faults.count == 0
    assert len({place for place, _ in found}) == len(VALUES)
    assert {place.file for place, _ in found} == {str(path)}


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "tsv"])
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_packed_files_give_the_same_records(folder, format, suffix):
    path = folder / f"plain.{format}"
    WRITERS[format](path)
    codec = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}[suffix]
    packed = folder / f"packed.{format}{suffix}"
    with pa.CompressedOutputStream(str(packed), codec) as sink:
        sink.write(path.read_bytes())
    assert [value for _, value in read(packed, size=100)[0]] == VALUES


def test_what_datasets_saved_gives_its_records(tmp_path):
    datasets.disable_progress_bars()
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["no", "yes"])
    )
    made = datasets.Dataset.from_dict({"text": ["a", "é", ""], "label": [0, 1, 1]}, features)
    made.select([2, 0]).save_to_disk(tmp_path / "d")
    (source,) = find_sources([str(tmp_path / "d")]).files
    assert [value for _, value in head(source, 9)] == [
        {"text": "", "label": "yes"},
        {"text": "a", "label": "no"},
    ]


def test_a_json_file_of_one_object_a_line_is_read_as_such(folder):
    path = folder / "lines.json"
    in_jsonl(path)
    found, _ = read(path)
    assert found[1] == (RowLocation(str(path), 2), VALUES[1])


def test_the_first_sound_records_are_the_head(folder):
    path = folder / "head.jsonl"
    path.write_bytes(b'{"a": 1}\nbad\n{"a": 2}\n{"a": 3}\n')
    (source,) = find_sources([str(path)]).files
    assert [value["a"] for _, value in head(source, 2)] == [1, 2]
    assert [value["a"] for _, value in head(source, 9)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b"\n \r\n\n"),
        ("a.jsonl", b"\xef\xbb\xbf"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0)),
        ("a.json", b"[ ]"),
        ("a.json", b"[]"),
        ("a.csv", b"text,label\n"),
        ("a.csv", b"\n\n"),
        ("a.txt", b"\n"),
    ],
)
def test_a_file_without_records_is_an_error_with_its_name(folder, name, data):
    (folder / name).write_bytes(data)
    with pytest.raises(DataError, match=rf"{name} is empty: it holds no record"):
        read(folder / name)


@pytest.mark.parametrize("write", [in_parquet, in_arrow])
def test_a_table_without_rows_is_an_error_with_its_name(folder, write):
    path = folder / f"none.{write.__name__.removeprefix('in_')}"
    table = pa.table({"text": pa.array([], type=pa.string())})
    if write is in_parquet:
        pa.parquet.write_table(table, path)
    else:
        with pa.ipc.new_stream(path, table.schema) as sink:
            sink.write_table(table)
    with pytest.raises(DataError, match=r"none\.\w+ is empty"):
        read(path)


def test_all_bad_rows_are_listed_before_the_work_stops(folder):
    path = folder / "bad.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": }\n{"c": "\xff"}\n' * 10)
    found, faults = read(path, "stop", size=1)
    assert len(found) == 10
    with pytest.raises(DataError) as raised:
        faults.raise_if_any(None)
    lines = str(raised.value).replace(str(path), "bad.jsonl").splitlines()
    assert lines[0] == "20 bad rows: 10 not JSON, 10 not UTF-8, at file:line:byte"
    assert lines[1:3] == [
        "  bad.jsonl:2:7: not JSON: expecting value",
        "  bad.jsonl:3:8: 0xff, invalid start byte",
    ]
    assert len(lines) == 22


def test_a_torn_packed_file_is_a_fault_and_its_records_are_kept(folder):
    path = folder / "torn.jsonl.gz"
    data = gzip.compress(b"".join(b'{"a": %d}\n' % n for n in range(100_000)))
    path.write_bytes(data[: len(data) // 2])
    found, faults = read(path)
    assert [value["a"] for _, value in found] == list(range(len(found)))
    assert len(found) > 10_000
    assert faults.kinds == {"torn file": 1}
    assert faults.first[0].place.line == len(found) + 1


def test_a_record_too_long_is_a_fault_beside_the_others(folder):
    path = folder / "long.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "' + b"x" * 5000 + b'"}\n{"c": 3}\n')
    found, faults = read(path, size=100, longest=1000)
    assert [value for _, value in found] == [{"a": 1}, {"c": 3}]
    assert str(faults.first[0].place) == f"{path}:2:1"
    assert faults.kinds == {"too long": 1}


PIECES = st.sampled_from(
    [b'{"a": 1}', b"\r\n", b"\xff", *(bytes([byte]) for byte in b'"\n,[]{}:x \\')]
)


@given(
    data=st.lists(PIECES, max_size=20).map(b"".join) | st.binary(max_size=50),
    format=st.sampled_from(["jsonl", "json", "csv", "tsv", "txt", "parquet", "arrow"]),
    policy=st.sampled_from(["stop", "skip", "replace"]),
    size=st.integers(1, 60),
)
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(folder, data, format, policy, size):
    path = folder / "any"
    path.write_bytes(b"|" + data if format in ("csv", "tsv") else data)
    try:
        found, faults = read(path, policy, format=format, size=size)
        faults.raise_if_any(None)
    except DataError:
        return
    assert all(place.file == str(path) and type(value) is dict for place, value in found)


@pytest.mark.parametrize(
    ("name", "count", "keys"),
    [
        ("snli/dev.jsonl", 9842, None),
        ("mbpp/mbpp.jsonl", 974, None),
        ("text2cypher/text2cypher_gpt4turbo.csv", 9846, None),
        ("xquad/xquad.en.json", 48, ["paragraphs", "title"]),
        ("wikitext2/valid.txt", 2, ["is_first", "is_last", "text"]),
    ],
)
def test_real_files_are_read_whole(name, count, keys):
    if not (SHARED / name).exists():
        pytest.skip(f"{name} is not in {SHARED}")
    found, faults = read(SHARED / name)
    assert (len(found), faults.count) == (count, 0)
    assert keys is None or all(sorted(value) == keys for _, value in found)
    if name.endswith(".jsonl"):
        lines = (SHARED / name).read_bytes().splitlines()
        assert [value for _, value in found] == [json.loads(line) for line in lines]
    if name.endswith(".csv"):
        with (SHARED / name).open(newline="", encoding="utf-8") as stream:
            assert [value for _, value in found] == list(csv.DictReader(stream))
    if name.endswith(".txt"):
        assert "".join(v["text"] for _, v in found) == (SHARED / name).read_text(encoding="utf-8")


def test_a_real_file_whose_rows_do_not_fit_its_header_is_told():
    path = SHARED / "text2sql_advising" / "advising-schema.csv"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    found, faults = read(path)
    assert (found, faults.kinds) == ([], {"field count": 141})
    why = "7 fields, but the header names 5: a quote or delimiter too many"
    assert str(faults.first[0]) == f"{path}:2: {why}"
