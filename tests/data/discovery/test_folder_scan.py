import os
import shutil
from pathlib import Path

import pytest
from tests.data.disks import built, characters, lines, repository, saved, table

from hotloop.data.discovery import folder_scan
from hotloop.data.discovery.folder_scan import FolderScan, search


@pytest.fixture
def put(tmp_path):
    """Write files below the folder for tests: put("a/b.csv", "c.txt", size=100)."""

    def write(*names, data=b"one\ntwo\n"):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
        return tmp_path

    return write


def seen(root, found=None):
    """Return id below the root -> splits with the number of files."""
    counts = {}
    for one in search(root, found or FolderScan()):
        splits = [file.split for file in one.files]
        name = os.path.relpath(one.id, root) if os.path.isabs(one.id) else one.id
        counts[name] = {split: splits.count(split) for split in splits}
    return counts


def test_splits_and_shards_of_a_folder_are_one_data_set(put):
    root = put(
        "snli/train.jsonl", "snli/dev.jsonl", "shards/part-00000.csv", "shards/part-00001.csv"
    )
    assert seen(root) == {
        "shards": {"train": 2},
        "snli": {"train": 1, "validation": 1},
    }


def test_other_names_and_other_formats_are_other_data_sets(put):
    root = put("d/math_train.jsonl", "d/math_test.jsonl", "d/code.jsonl", "d/train.csv")
    assert seen(root) == {
        "d/math*.jsonl": {"train": 1, "test": 1},
        "d/code.jsonl": {"train": 1},
        "d/train.csv": {"train": 1},
    }


def test_folders_named_like_splits_belong_to_the_one_around_them(put):
    root = put("set/train/0001.parquet", "set/train/0002.parquet", "set/test/0001.parquet")
    assert seen(root) == {"set": {"train": 2, "test": 1}}
    assert seen(root / "set" / "test") == {"0001.parquet": {"test": 1}}


def test_a_single_file_is_named_itself(put):
    root = put("one/input.txt", "two/train.txt", "three.jsonl.gz")
    sets = {os.path.relpath(one.id, root): one for one in search(root, FolderScan())}
    assert {name: one.kind for name, one in sets.items()} == {
        "one/input.txt": "file",
        "two": "folder",
        "three.jsonl.gz": "file",
    }
    assert sets["three.jsonl.gz"].format == "jsonl.gz"
    assert search(root / "one/input.txt", FolderScan()) == [sets["one/input.txt"]]


def test_texts_of_a_folder_are_one_data_set_and_so_is_a_crowd(put, monkeypatch):
    monkeypatch.setattr(folder_scan, "SINGLES", 3)
    root = put("books/a.txt", "books/b.txt", *(f"crowd/x{n}.csv" for n in "abcd"))
    assert seen(root) == {"books": {"train": 2}, "crowd": {"train": 4}}


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b'[{"a": 1}]', "json"),
        (b" [[1, 2]]", "json"),
        (b'{"version": "1", "data": [{"a": 1}]}', "json"),
        (b'{"a": 1}\n{"a": 2}\n', "jsonl"),
        (b'{"a": [1], "b": {"c": 1}}', None),
        (b"[1, 2]", None),
        (b"\xff\xfe", None),
    ],
)
def test_json_is_data_when_it_holds_records(put, data, format):
    sets = search(put("a.json", data=data), FolderScan())
    assert [one.format for one in sets] == ([] if format is None else [format])


def test_what_libraries_made_is_met_on_the_way(tmp_path):
    repository(tmp_path / "hub", "dataset", "org/name", {"train.csv": b"a\n1\n"})
    built(tmp_path / "cache", "org/built", "default", {"train": 1})
    saved(tmp_path / "saved", {"train": 1})
    characters(tmp_path / "own", 9, 1)
    kinds = {one.kind for one in search(tmp_path, FolderScan())}
    assert kinds == {"hub", "datasets-cache", "folder", "hotloop-tokens"}
    assert len(search(tmp_path, FolderScan())) == 4


def test_what_is_no_data_is_passed_over(put, tmp_path):
    put(
        "a/.hidden/x.csv",
        "a/node_modules/x.csv",
        "run/run.json",
        "run/x.csv",
        "v/pyvenv.cfg",
        "v/x.csv",
    )
    put("requirements.txt", "b/.x.csv", "README.txt")
    put("empty.csv", data=b"")
    os.mkfifo(tmp_path / "pipe.csv")
    assert seen(tmp_path) == {}


def test_links_are_followed_once(put, tmp_path):
    root = put("real/x.csv", "one/y.csv")
    (root / "one" / "loop").symlink_to(root)
    (root / "one" / "again").symlink_to(root / "real")
    (root / "self").symlink_to("self")
    (root / "one" / "z.csv").symlink_to(root / "one" / "y.csv")
    (root / "one" / "gone.csv").symlink_to("nowhere")
    sets = search(root, FolderScan())
    assert sorted(file.path.name for one in sets for file in one.files) == ["x.csv", "y.csv"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to(root / "real")
    assert [one.kind for one in search(elsewhere, FolderScan())] == ["file"]


def test_nothing_is_met_twice_in_one_search(put):
    root, found = put("a/x.csv"), FolderScan()
    assert len(search(root / "a", found)) == 1
    assert search(root, found) == []


def test_a_search_has_an_end_and_says_so(put, monkeypatch):
    root = put(*(f"{n}/x.csv" for n in range(9)))
    found = FolderScan(folders=5)
    assert len(search(root, found)) == 4
    assert "was not read: --root looks there" in found.notes[0]
    found = FolderScan(files=3)
    assert len(search(root, found)) == 3
    monkeypatch.setattr(folder_scan, "DEPTH", 2)
    deep = put("d/e/f/x.csv")
    found = FolderScan()
    assert "d/e/f/x.csv" not in seen(deep, found)
    told = "not read, too deep: --root looks there"
    assert found.notes == [f"{deep / 'd/e/f'} was {told}"]
    put("d/e/g/x.csv", "d/e/h/x.csv")
    found = FolderScan()
    search(deep, found)
    assert found.notes == [f"{deep / 'd/e/f'} and 2 more were {told}"]


def test_a_folder_that_goes_meanwhile_is_a_note(put):
    root = put("a/x.csv", "b/y.csv")
    found = FolderScan(progress=lambda text: text.endswith("/a") and shutil.rmtree(root / "a"))
    assert set(seen(root, found)) == {"b/y.csv"}
    assert found.notes == [f"{root / 'a'} cannot be read: No such file or directory"]


def test_what_is_gone_is_a_note():
    found = FolderScan()
    assert search(Path("/not there"), found) == []
    assert found.notes == ["/not there cannot be read: No such file or directory"]


def test_looking_leaves_the_time_of_last_use(put):
    root = put("a.json", data=b'[{"a": 1}]')
    os.utime(root / "a.json", (1e9, 1e9))
    (one,) = search(root, FolderScan())
    assert one.last_used == 1e9
    assert (root / "a.json").stat().st_atime == 1e9


def test_sizes_and_formats_are_those_of_the_files(put):
    root = put("train.jsonl", data=lines(3))
    put("0.parquet", data=table(2))
    sizes = {one.format: one.bytes for one in search(root, FolderScan())}
    assert sizes == {"jsonl": len(lines(3)), "parquet": len(table(2))}
