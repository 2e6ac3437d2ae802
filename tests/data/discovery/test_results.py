import json
import os
from pathlib import Path

from hotloop.data.discovery.results import DataFile, DataSet, Missing, Reference
from hotloop.machine.file_storage import Storage


def data_set(**more):
    return DataSet(
        id="a", path=Path("/a"), kind="file", format="csv", files=(), bytes=7, last_used=1.0, **more
    )


def test_rows_are_known_when_those_of_every_split_are():
    assert data_set(splits={"train": 3, "test": 4}).rows == 7
    assert data_set(splits={"train": 3, "test": None}).rows is None
    assert data_set(splits={}).rows is None
    assert data_set(splits={"train": 0}).rows == 0


def test_all_of_it_is_json():
    place = Reference(file="a.yaml", line=3, name="math")
    storage = Storage(kind="nvme", read=1e9, cold=True)
    one = data_set(splits={"train": 3}, storage=storage, referred_by=(place,))
    value = json.loads(json.dumps(one.to_json()))
    assert value["storage"] == {"kind": "nvme", "read": 1e9, "cold": True}
    assert value["referred_by"] == [{"file": "a.yaml", "line": 3, "name": "math"}]
    assert (value["path"], value["rows"], value["files"]) == ("/a", 3, 0)
    assert Missing(what="b", place=place).to_json() == {
        "what": "b", "file": "a.yaml", "line": 3, "name": "math",
    }  # fmt: skip


def test_the_last_use_of_a_file_is_reading_or_writing(tmp_path):
    (tmp_path / "a").write_bytes(b"12")
    for times in ((5.0, 3.0), (3.0, 5.0)):
        os.utime(tmp_path / "a", times)
        file = DataFile.of(tmp_path / "a", (tmp_path / "a").stat(), split="train", format="txt")
        assert (file.used, file.bytes) == (5.0, 2)
