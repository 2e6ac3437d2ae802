"""Files in the shapes in which public sets are published: classes, splits in one file, caches."""

import json
from dataclasses import replace

import pytest

from hotloop.core.env import ENV
from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.hub_rows import cached_folder
from hotloop.data.readers.records import find_sources, head, records
from hotloop.data.sampling.train_and_valid import in_classes, used
from hotloop.data.tokenising.plan import by_position


def texts_of_classes(folder):
    for place in ("train/pos/0_9", "train/neg/0_2", "train/unsup/0_0", "test/pos/1_7"):
        path = folder / f"{place}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(place)
    (folder / "train" / "urls_pos.txt").write_text("https://example.org")
    (folder / "imdb.vocab").write_text("the")


def test_texts_in_folders_of_classes_have_their_folder(tmp_path):
    texts_of_classes(tmp_path)
    sources = find_sources([str(tmp_path)])
    rows = {(f.split, f.folder): head(f, 1)[0][1] for f in sources.files}
    assert rows["train", "pos"]["folder"] == "pos"
    assert rows["test", "pos"]["text"] == "test/pos/1_7\n"
    assert "folder" not in rows["train", None]
    kept, (note,) = in_classes(sources.files)
    assert sorted(file.folder for file in kept) == ["neg", "pos", "pos"]
    assert note == (
        "the label is the folder of a text: neg, pos; 2 texts outside of these folders are left "
        "out (unsup has no labels)"
    )


def test_texts_of_one_folder_have_no_class(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("x")
    (tmp_path / "b.txt").write_text("y")
    assert [file.folder for file in find_sources([str(tmp_path)]).files] == [None, None]


def test_files_without_a_suffix_are_texts_where_a_folder_has_nothing_else(tmp_path):
    for place in ("20news-train/autos/101", "20news-train/space/102", "20news-test/space/103"):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(place)
    (tmp_path / "20news-train" / "space" / "image").write_bytes(b"\0\1")
    files = find_sources([str(tmp_path)]).files
    assert [(file.split, file.folder, file.path.name) for file in files] == [
        ("train", "autos", "101"),
        ("train", "space", "102"),
        ("test", "space", "103"),
    ]
    (tmp_path / "main.c").write_text("int main;")  # a folder of code has a Makefile, too
    with pytest.raises(DataError, match="holds no records"):
        find_sources([str(tmp_path)])


def test_folders_of_splits_need_one_to_train_on(tmp_path):
    for name in ("my-test-data", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text('{"text": "a"}\n')
    assert [file.split for file in find_sources([str(tmp_path)]).files] == ["train", "train"]


def test_columns_that_are_named_by_position_have_no_header(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text("ja\tyes\nnein\tno\n")
    (source,) = by_position(find_sources([str(path)]).files, {"prompt": "0", "response": "1"})
    assert [row for _, row in head(source, 9)] == [
        {"0": "ja", "1": "yes"},
        {"0": "nein", "1": "no"},
    ]
    (source,) = by_position(find_sources([str(path)]).files, {"prompt": "ja", "response": "1"})
    assert [row for _, row in head(source, 9)] == [{"ja": "nein", "yes": "no"}]


def test_a_json_object_may_hold_a_list_for_each_split(tmp_path):
    rows = {
        "val": [["b", "y"]],
        "train": [['a, ["x"]', "x"], ["c", "z"]],
        "oos_train": [["d", "o"]],
    }
    (tmp_path / "full.json").write_text(json.dumps(rows))
    files = find_sources([str(tmp_path / "full.json")]).files
    assert [(file.split, file.member) for file in files] == [
        ("train", "oos_train"),
        ("train", "train"),
        ("validation", "val"),
    ]
    assert [row for _, row in head(files[1], 9)] == [
        {"0": 'a, ["x"]', "1": "x"},
        {"0": "c", "1": "z"},
    ]
    assert head(files[2], 9)[0][1] == {"0": "b", "1": "y"}


def test_two_lists_that_are_no_splits_are_refused_as_before(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"train": [{"x": 1}], "extra": [{"x": 2}]}))
    (file,) = find_sources([str(tmp_path / "a.json")]).files
    with pytest.raises(DataError, match="both 'train' and 'extra' are lists of objects"):
        head(file, 9)


def test_shards_beside_those_of_a_known_split_have_their_own(tmp_path):
    for split in ("train", "unsupervised"):
        (tmp_path / f"{split}-00000-of-00001.jsonl").write_text('{"text": "a"}\n')
    assert [f.split for f in find_sources([str(tmp_path)]).files] == ["train", "unsupervised"]
    (tmp_path / "train-00000-of-00001.jsonl").unlink()
    assert [f.split for f in find_sources([str(tmp_path)]).files] == ["train"]


@pytest.fixture
def caches(tmp_path):
    """Return an environment whose caches hold a few data sets, as the libraries lay them out."""
    hub, datasets = tmp_path / "hub", tmp_path / "datasets"
    for name, files in {
        "datasets--me--one": ["data/train-00000-of-00001.jsonl", "data/test-00000-of-00001.jsonl"],
        "datasets--me--sft": [
            "data/train_sft-00000-of-00001-a1.jsonl",
            "data/train_gen-00000-of-00001-b2.jsonl",
        ],
        "datasets--me--top": ["train.jsonl", "scripts/make.py"],
        "datasets--me--many": ["de-en/train.jsonl", "cs-en/train.jsonl", "README.md"],
    }.items():
        for file in files:
            path = hub / name / "snapshots" / "abc" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"text": file}) + "\n")
        (hub / name / "refs").mkdir()
        (hub / name / "refs" / "main").write_text("abc")
    built = datasets / "me___built" / "plain_text" / "0.0.0" / "0123abcd"
    built.mkdir(parents=True)
    (built / "dataset_info.json").write_text("{}")
    (built / "built-train.arrow").write_bytes(b"ARROW1")
    return replace(ENV, hub=hub, datasets=datasets)


def test_names_of_the_hub_are_found_in_the_caches(caches):
    assert cached_folder("me/one", caches) == caches.hub / "datasets--me--one" / "snapshots" / "abc"
    assert cached_folder("me/top", caches).name == "abc"
    many = caches.hub / "datasets--me--many" / "snapshots" / "abc"
    assert cached_folder("me/many::train::cs-en", caches) == many / "cs-en"
    assert cached_folder("me/built", caches).name == "0123abcd"
    assert cached_folder("me/none", caches) is None
    assert cached_folder("me/many::train::fr-en", caches) is None
    assert cached_folder("../me/one", caches) is None
    with pytest.raises(
        DataError, match=r"configurations cs-en, de-en: name one, as me/many::train::"
    ):
        cached_folder("me/many", caches)


def test_a_name_of_the_hub_gives_the_rows_of_its_split(caches, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "hotloop.data.readers.sources.cached_folder", lambda n: cached_folder(n, caches)
    )
    found = find_sources(["me/one"])
    assert [file.split for file in found.files] == ["train", "test"]
    assert found.notes[0].startswith("me/one is read from a cache: ")
    assert [file.split for file in find_sources(["me/one::test"]).files] == ["test"]
    assert len(find_sources(["me/sft"]).files) == 2
    (file,) = find_sources(["me/sft::train_sft"]).files
    assert (file.split, file.path.name[:9]) == ("train", "train_sft")
    with pytest.raises(DataError, match="me/one::dev has no split 'dev'; there are test, train"):
        find_sources(["me/one::dev"])


@pytest.mark.parametrize("named", [{"text_b": ""}, {"prompt": "text", "response": "1"}, {}])
def test_a_header_stays_one_unless_every_named_key_is_a_position(tmp_path, named):
    (tmp_path / "a.csv").write_text("text,label\na,pos\n")
    (file,) = by_position(find_sources([str(tmp_path)]).files, named)
    assert head(file, 9)[0][1] == {"text": "a", "label": "pos"}


def test_the_header_of_pandas_is_no_row_by_position(tmp_path):
    (tmp_path / "a.csv").write_text("0,1\na,pos\n")
    (file,) = by_position(find_sources([str(tmp_path)]).files, {"text_a": "0", "label": "1"})
    assert [row for _, row in head(file, 9)] == [{"0": "a", "1": "pos"}]


def test_test_rows_are_not_trained_on_beside_a_file_to_validate_on(tmp_path):
    (tmp_path / "all.json").write_text(json.dumps({"train": [{"x": 1}], "test": [{"x": 2}]}))
    (tmp_path / "v.json").write_text(json.dumps([{"x": 3}]))
    train = find_sources([str(tmp_path / "all.json")]).files
    valid = find_sources([str(tmp_path / "v.json")]).files
    files, (note,) = used(train, valid, is_one=False)
    assert [(file.member, file.split) for file in files] == [
        ("train", "train"),
        (None, "validation"),
    ]
    assert "all.json: test: not trained on" in note
    _, (shared, _) = used(train, train[:1], is_one=False)
    assert shared.endswith("both trained and validated on: the score says nothing about other rows")


def test_a_list_of_one_split_alone_says_which(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"test": [{"x": 1}], "train": []}))
    (file,) = find_sources([str(tmp_path / "a.json")]).files
    assert (file.split, file.member) == ("test", "test")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"train": [{"x": 1}], "test": [{"x": 2}]', "not JSON"),
        ('{"train": [{"x": 1}], "test": [{"x": 2}]} garbage', "text after the end"),
        ('{"train": [{"x": 1}], "test": [{"x": 2}', "does not end"),
    ],
)
def test_a_torn_end_of_a_file_of_splits_is_a_fault(tmp_path, text, said):
    (tmp_path / "a.json").write_text(text)
    faults = Faults("skip")
    list(records(find_sources([str(tmp_path / "a.json")]).files, faults))
    assert said in str(faults) + faults.listed


def test_a_split_that_is_given_twice_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"train": [{"x": 1}], "train": [{"x": 2}]}')
    (file,) = find_sources([str(tmp_path / "a.json")]).files
    with pytest.raises(DataError, match="both 'train' and 'train' are lists"):
        head(file, 9)


def test_rows_of_lists_are_read_one_by_one(tmp_path):
    (tmp_path / "a.json").write_text('[["a \\ud83d\\ude00", "x"], ["b", "y"], ["c", ["z"]], []]')
    faults = Faults("skip")
    found = [row for _, row in records(find_sources([str(tmp_path)]).files, faults)]
    assert found == [{"0": "a \U0001f600", "1": "x"}, {"0": "b", "1": "y"}]
    assert faults.count == 2


def test_code_is_no_text_of_two_languages(tmp_path):
    for name in ("a.txt", "b.txt", "app.ts", "app.cs"):
        (tmp_path / name).write_text("x\n")
    files = find_sources([str(tmp_path)]).files
    assert [file.path.name for file in files] == ["a.txt", "b.txt"]


def test_links_that_lead_out_are_not_read(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("train.de", "train.en", "plain"):
        (outside / name).write_text("secret\n")
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).symlink_to(outside / name)
    with pytest.raises(DataError, match="holds no records"):
        find_sources([str(tmp_path / "data")])
