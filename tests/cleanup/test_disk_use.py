import json
import os
from pathlib import Path

from hotloop.cleanup.disk_use import CleanupResult, Item, OtherCache, Shelf, last_used, taken


def item(size, *, goes):
    return Item(path=Path("/r/c"), kind="checkpoint", bytes=size, goes=goes, why="older", step=7)


def test_what_can_go_is_summed():
    shelf = Shelf(
        path=Path("/r"), name="r", state="complete", bytes=9,
        items=(item(3, goes=True), item(4, goes=False)),
    )  # fmt: skip
    assert [one.bytes for one in shelf.can_go] == [3]
    assert CleanupResult(shelves=(shelf, shelf), caches=()).can_go == 6


def test_all_of_it_is_json():
    shelf = Shelf(path=Path("/r"), name="r", state="complete", bytes=9, items=(item(3, goes=True),))
    cache = OtherCache(path=Path("/c"), name="hub", bytes=5, last_used=None, how="hf cache rm")
    value = json.loads(json.dumps(CleanupResult(shelves=(shelf,), caches=(cache,)).to_json()))
    assert (value["schema"], value["can_go_bytes"]) == (1, 3)
    assert value["shelves"][0]["items"][0]["path"] == "/r/c"
    assert value["caches"][0] == {
        "path": "/c", "name": "hub", "bytes": 5, "last_used": None, "how": "hf cache rm",
    }  # fmt: skip


def test_bytes_and_last_use_are_those_of_all_files_below(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x").write_bytes(b"123")
    (tmp_path / "a" / "y").write_bytes(b"12345")
    os.utime(tmp_path / "a" / "b" / "x", (70, 50))
    os.utime(tmp_path / "a" / "y", (60, 90))
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "file").symlink_to(tmp_path / "a" / "y")
    os.mkfifo(tmp_path / "a" / "pipe")
    assert (taken(tmp_path / "a"), last_used(tmp_path / "a")) == (8, 90)
    assert (taken(tmp_path / "a" / "y"), last_used(tmp_path / "a" / "b")) == (5, 70)
    assert (taken(tmp_path / "a" / "link"), last_used(tmp_path / "gone")) == (0, None)
