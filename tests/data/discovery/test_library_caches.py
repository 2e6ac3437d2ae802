import builtins
import json

import pytest
from tests.data.disks import arrow, built, characters, lines, repository, saved, table

from hotloop.data.discovery.folder_scan import FolderScan, search
from hotloop.data.discovery.library_caches import hub, is_hub, made_folder


def found(folder):
    notes = []
    return list(hub(folder, notes.append)), notes


def made(folder):
    return made_folder(folder, [path.name for path in folder.iterdir()])


def test_a_hub_cache_is_told_by_the_names_in_it():
    assert is_hub([".locks", "datasets--org--name"])
    assert is_hub(["models--a--b"])
    assert not is_hub(["models", "datasets"])


def test_the_hubs_data_sets_are_listed_and_not_its_models(tmp_path):
    repository(tmp_path, "model", "org/net", {"model.safetensors": b"x"})
    home = repository(
        tmp_path,
        "dataset",
        "org/name",
        {
            "README.md": b"# name",
            "data/train-00000-of-00002.parquet": table(3),
            "data/train-00001-of-00002.parquet": table(4),
            "data/validation-00000-of-00001.parquet": table(2),
        },
    )
    (one,), notes = found(tmp_path)
    assert notes == []
    assert (one.id, one.kind, one.format, one.path) == ("org/name", "hub", "parquet", home)
    assert one.splits == {"train": None, "validation": None}
    assert [file.path.name for file in one.files] == [
        "train-00000-of-00002.parquet",
        "train-00001-of-00002.parquet",
        "validation-00000-of-00001.parquet",
    ]
    assert one.bytes == sum(path.stat().st_size for path in (home / "blobs").iterdir())
    assert one.last_used is not None


def test_files_of_models_are_no_data_sets(tmp_path):
    repository(tmp_path, "model", "org/net", {"vocab.txt": b"a\nb\n", "train.csv": b"a\n1\n"})
    assert search(tmp_path, FolderScan()) == []


def test_configurations_stand_before_their_splits(tmp_path):
    files = {"cola/train.jsonl": lines(1), "sst2/train.jsonl": lines(2), "sst2/test/a.jsonl": b"{}"}
    repository(tmp_path, "dataset", "glue", files)
    (one,), _ = found(tmp_path)
    assert set(one.splits) == {"cola/train", "sst2/train", "sst2/test"}


def test_a_set_of_other_files_has_their_suffix_for_a_format(tmp_path):
    repository(tmp_path, "dataset", "org/images", {"a.tar": b"1", "b.tar": b"2", "README.md": b""})
    repository(tmp_path, "dataset", "org/nothing", {".gitattributes": b""})
    (images, nothing), _ = found(tmp_path)
    assert (images.format, images.files, images.rows) == ("tar", (), None)
    assert nothing.format == "unknown"


def test_a_damaged_hub_cache_is_a_note(tmp_path):
    repository(tmp_path, "dataset", "org/good", {"train.csv": b"a\n1\n"})
    (tmp_path / "datasets--org--bad").mkdir()
    sets, (note,) = found(tmp_path)
    assert [one.id for one in sets] == ["org/good"]
    assert "datasets--org--bad" in note
    sets, (note,) = found(tmp_path / "datasets--org--good" / "refs" / "main")
    assert sets == []
    assert "cannot be read" in note


def test_without_huggingface_hub_it_is_said_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "huggingface_hub":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    sets, (note,) = found(tmp_path)
    assert sets == []
    assert "pip install 'hotloop[hf]'" in note


def test_an_entry_of_datasets_cache_says_its_rows(tmp_path):
    one = made(built(tmp_path, "org/name", "plain", {"train": 7, "test": 2}))
    assert (one.id, one.config, one.kind) == ("org/name", "plain", "datasets-cache")
    assert one.splits == {"train": 7, "test": 2}
    assert one.rows == 9
    assert [file.format for file in one.files] == ["arrow", "arrow"]
    assert one.bytes > sum(file.bytes for file in one.files)  # with dataset_info.json


def test_the_default_configuration_is_not_named_but_a_packaged_one_is(tmp_path):
    assert made(built(tmp_path, "imdb", "default", {"train": 1})).config is None
    home = built(tmp_path, "json", "default-503d38af", {"train": 1})
    about = json.loads((home / "dataset_info.json").read_text())
    (home / "dataset_info.json").write_text(json.dumps({**about, "config_name": "default"}))
    assert made(home).config == "default-503d38af"


def test_a_saved_data_set_is_counted_and_not_believed(tmp_path):
    one = made(saved(tmp_path / "s", {"train": 7, "test": 2}))
    assert (one.kind, one.format, one.id) == ("folder", "arrow", str(tmp_path / "s"))
    assert one.splits == {"train": None, "test": None}
    single = made(tmp_path / "s" / "test")
    assert [file.split for file in single.files] == ["test"]


def test_what_map_left_is_no_data_but_takes_room(tmp_path):
    home = saved(tmp_path / "s", {"train": 7}) / "train"
    before = made(home)
    arrow(home / "cache-00ff.arrow", 90)
    after = made(home)
    assert after.files == before.files
    assert after.bytes > before.bytes


def test_names_in_a_dictionary_of_splits_lead_nowhere_else(tmp_path):
    saved(tmp_path / "secret", {"train": 7})
    home = saved(tmp_path / "s", {"test": 1})
    names = ["test", "../secret/train", str(tmp_path / "secret" / "train"), 7]
    (home / "dataset_dict.json").write_text(json.dumps({"splits": names}))
    assert set(made(home).splits) == {"test"}


def test_hotloops_own_tokens(tmp_path):
    one = made(characters(tmp_path, 90, 10))
    assert (one.kind, one.unit, one.rows) == ("hotloop-tokens", "tokens", 100)
    assert one.splits == {"train": 90, "validation": 10}
    assert len(one.files) == 2
    folder = saved(tmp_path / "t", {"train": 7})
    about = {
        "schema": 1,
        "kind": "tokens",
        "splits": {"train": {"rows": 7, "tokens": 900}, "..": {}},
    }
    (folder / "about.json").write_text(json.dumps(about))
    one = made(folder)
    assert (one.kind, one.unit, one.splits) == ("hotloop-tokens", "rows", {"train": 7})
    assert [file.split for file in one.files] == ["train"]


@pytest.mark.parametrize("name", ["about.json", "dataset_dict.json", "dataset_info.json"])
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": 7}', '{"splits": 7}', "[" * 100_000, '"\\ud800"']
)
def test_what_only_looks_like_a_librarys_folder_is_none(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert made(tmp_path) is None


def test_an_endless_about_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("hotloop.data.discovery.library_caches.LARGEST_ABOUT", 10)
    assert made(characters(tmp_path, 9, 1)) is None
