import json
import os

import pytest
from tests.data.disks import built, characters, environment, lines, repository, saved, table

from hotloop.core.errors import UsageError
from hotloop.data.discovery.results import Reference
from hotloop.data.discovery.search import find


@pytest.fixture
def disk(tmp_path):
    """Caches of three kinds, and a project without any file."""
    own = environment(tmp_path)
    repository(
        own.hub, "dataset", "org/name", {"train.parquet": table(5), "test.parquet": table(2)}
    )
    built(own.datasets, "org/built", "plain", {"train": 7})
    characters(own.cache, 90, 10)
    (tmp_path / "project").mkdir()
    return tmp_path


def seen(disk, *roots, **more):
    return find(list(roots), project=disk / "project", environment=environment(disk), **more)


def by_id(found):
    return {os.path.basename(one.id): one for one in found.data_sets}


def test_three_caches_are_listed_with_rows_bytes_last_use_and_storage(disk):
    found = seen(disk)
    assert [one.kind for one in found.data_sets] == ["hub", "datasets-cache", "hotloop-tokens"]
    hub, cache, tokens = found.data_sets
    assert hub.splits == {"train": 5, "test": 2}
    assert cache.splits == {"train": 7}
    assert (tokens.rows, tokens.unit) == (100, "tokens")
    assert (found.missing, found.notes) == ((), ())
    for one in found.data_sets:
        assert one.bytes > 0
        assert one.last_used is not None
        assert one.storage is not None
        assert one.storage.read is None, "too small to have a speed"


def test_without_caches_there_is_nothing(tmp_path):
    (tmp_path / "project").mkdir()
    assert seen(tmp_path).data_sets == ()


def test_folders_that_are_named_are_searched(disk):
    saved(disk / "more" / "kept", {"train": 3, "test": 1})
    (disk / "more" / "math.jsonl").write_bytes(lines(4))
    found = by_id(seen(disk, disk / "more", disk / "more" / "math.jsonl"))
    assert found["kept"].splits == {"train": 3, "test": 1}
    assert found["math.jsonl"].splits == {"train": 4}
    assert len(found) == 5


def test_caches_inside_a_named_folder_are_met_once(disk):
    assert len(seen(disk, disk).data_sets) == 3


def test_a_root_that_is_not_there_is_refused(disk):
    with pytest.raises(UsageError, match="is not there; name a folder or file"):
        seen(disk, disk / "gone")


def test_data_sets_carry_the_places_and_experts_that_name_them(disk):
    (disk / "project" / "data").mkdir()
    (disk / "project" / "data" / "math.jsonl").write_bytes(lines(4))
    (disk / "project" / "experts.yaml").write_text(
        "experts:\n- name: math\n  data: data/math.jsonl\n- name: law\n  dataset: org/name\n"
        "- name: code\n  data: data/code.jsonl\n"
    )
    (disk / "project" / "train.py").write_text("path = 'data/math.jsonl'\n")
    found = seen(disk)
    sets = by_id(found)
    assert sets["math.jsonl"].referred_by == (
        Reference(file="experts.yaml", line=3, name="math"),
        Reference(file="train.py", line=1),
    )
    assert sets["name"].referred_by == (Reference(file="experts.yaml", line=5, name="law"),)
    assert sets["built"].referred_by == ()
    (missing,) = found.missing
    assert missing.what == "data/code.jsonl"
    assert missing.place == Reference(file="experts.yaml", line=7, name="code")


def test_a_manifest_of_records_is_no_data_set(disk):
    (disk / "project" / "math.jsonl").write_bytes(lines(4))
    manifest = [{"name": "math", "data": "math.jsonl"}, {"name": "law", "data": "law.jsonl"}]
    (disk / "project" / "experts.json").write_text(json.dumps(manifest))
    found = seen(disk, disk / "project")
    assert "experts.json" not in by_id(found)
    assert [place.name for place in by_id(found)["math.jsonl"].referred_by] == ["math"]
    assert [(one.what, one.place.name) for one in found.missing] == [("law.jsonl", "law")]


def test_what_data_say_of_files_is_their_own_affair(disk):
    rows = [{"file": "picture/gone.csv"}, {"file": "picture/gone2.csv"}]
    (disk / "project" / "rows.json").write_text(json.dumps(rows))
    found = seen(disk, disk / "project")
    assert by_id(found)["rows.json"].splits == {"train": 2}
    assert found.missing == ()


def test_large_files_have_a_speed_and_a_storage(disk):
    (disk / "project" / "big.jsonl").write_bytes(lines(150_000))
    one = by_id(seen(disk, disk / "project"))["big.jsonl"]
    assert one.storage.read > 1e6
    assert one.rows == 150_000


def test_measuring_has_an_end(disk):
    for name in "ab":
        (disk / "project" / f"{name}.jsonl").write_bytes(lines(150_000))
    ticks = iter(range(0, 10_000, 7))
    found = by_id(seen(disk, disk / "project", now=lambda: next(ticks)))
    assert found["a.jsonl"].storage.read is None
    assert found["b.jsonl"].storage.kind == found["a.jsonl"].storage.kind


def test_a_damaged_file_is_listed_and_noted(disk):
    (disk / "project" / "a.jsonl.gz").write_bytes(b"no gzip")
    found = seen(disk, disk / "project")
    assert by_id(found)["a.jsonl.gz"].splits == {"train": None}
    assert "a.jsonl.gz cannot be read" in found.notes[0]


def test_a_split_with_one_unknown_file_is_unknown(disk):
    (disk / "project" / "a_train_00000.csv").write_text("x\n1\n")
    (disk / "project" / "a_train_00001.csv").write_text(f"x\n{'1' * 200_000}\n")
    (one,) = [one for one in seen(disk, disk / "project").data_sets if one.format == "csv"]
    assert one.splits == {"train": None}


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="a system that cannot be asked that")
def test_nothing_is_changed_on_the_disk(disk):
    (disk / "project" / "a.csv").write_text("x\n1\n")
    (disk / "project" / "a.yaml").write_text("data: a.csv\n")
    paths = [path for path in sorted(disk.rglob("*")) if not path.is_symlink()]
    for path in paths:
        os.utime(path, (1e9, 1e9))
    found = seen(disk, disk)
    assert {one.last_used for one in found.data_sets} == {1e9}
    assert [path for path in sorted(disk.rglob("*")) if not path.is_symlink()] == paths
    read = [path for path in paths if path.is_file() and path.stat().st_atime != 1e9]
    about = {path.suffix or path.name for path in read}
    assert about <= {".json", ".yaml", "main"}, "no data, but what says what data are"


def test_names_that_would_draw_are_kept_in_json(disk):
    (disk / "project" / "\x1b[31mred.csv").write_text("x\n1\n")
    value = seen(disk, disk / "project").to_json()
    assert value["schema"] == 1
    text = json.dumps(value)
    assert "\x1b" not in text
    assert json.loads(text)["data_sets"][-1]["id"].endswith("\x1b[31mred.csv")


def test_what_it_does_is_told(disk):
    told = []
    seen(disk, progress=told.append)
    assert any(text.startswith("looking into") for text in told)
    assert any(text.startswith("counting the rows of") for text in told)
