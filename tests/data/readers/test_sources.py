import pytest

from hotloop.core.errors import DataError
from hotloop.data.readers.sources import find_sources

datasets = pytest.importorskip("datasets")

SOME = b'{"a": 1}\n'


def make(root, *names, data=SOME):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def found(root, *names, **options):
    """What is found under names below a folder: (name, split, format) of each file."""
    sources = find_sources([str(root / name) for name in names], **options)
    return [(str(f.path.relative_to(root)), f.split, f.format) for f in sources.files]


def saved(folder, **splits):
    made = {name: datasets.Dataset.from_dict({"a": rows}) for name, rows in splits.items()}
    datasets.disable_progress_bars()
    whole = datasets.DatasetDict(made) if len(made) > 1 else next(iter(made.values()))
    whole.save_to_disk(folder)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.JSONL.GZ", "jsonl"),
        ("a.json.bz2", "json"),
        ("a.csv", "csv"),
        ("a.tsv.zst", "tsv"),
        ("a.parquet", "parquet"),
        ("a.arrow", "arrow"),
        ("a.txt", "txt"),
        ("a.md", "txt"),
        ("README.txt", "txt"),
    ],
)
def test_the_suffix_of_a_named_file_tells_its_format(tmp_path, name, format):
    make(tmp_path, name)
    (file,) = find_sources([str(tmp_path / name)]).files
    assert (file.format, file.split, file.bytes) == (format, "train", len(SOME))
    assert file.name == str(tmp_path / name)


def test_a_format_that_is_given_counts_more_than_the_name(tmp_path):
    make(tmp_path, "rows.log", "a.json")
    assert found(tmp_path, "rows.log", "a.json", format="jsonl") == [
        ("a.json", "train", "jsonl"),
        ("rows.log", "train", "jsonl"),
    ]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.jsonl", "train"),
        ("data.jsonl", "train"),
        ("dev.jsonl", "validation"),
        ("snli_1.0_val.jsonl.gz", "validation"),
        ("valid-00000-of-00002.jsonl", "validation"),
        ("Test.jsonl", "test"),
        ("contest.jsonl", "train"),
    ],
)
def test_the_name_of_a_file_tells_its_split(tmp_path, name, split):
    make(tmp_path, name)
    assert find_sources([str(tmp_path / name)]).files[0].split == split


def test_a_folder_gives_its_files_by_split_and_name(tmp_path):
    names = ["test.jsonl", "b/train-1.jsonl", "a.jsonl", "dev/x.jsonl", "b/validation/y.jsonl"]
    make(tmp_path, "test/data", "d/.hidden.jsonl", "d/.git/a.jsonl", "d/site-packages/a.jsonl")
    make(tmp_path / "d", *names)
    sources = find_sources([str(tmp_path / "d")])
    assert [(f.path.relative_to(tmp_path / "d").as_posix(), f.split) for f in sources.files] == [
        ("a.jsonl", "train"),
        ("b/train-1.jsonl", "train"),
        ("b/validation/y.jsonl", "validation"),
        ("dev/x.jsonl", "validation"),
        ("test.jsonl", "test"),
    ]
    assert sources.splits == ("train", "validation", "test")
    assert [file.path.name for file in sources.files if file.split == "validation"] == [
        "y.jsonl",
        "x.jsonl",
    ]
    assert sources.notes == ()


def test_folders_named_after_splits_keep_them_apart(tmp_path):
    make(tmp_path, "train/a.jsonl", "test/a.jsonl")
    assert found(tmp_path, "test", "train") == [
        ("train/a.jsonl", "train", "jsonl"),
        ("test/a.jsonl", "test", "jsonl"),
    ]


def test_patterns_are_matched_in_folders_below_too(tmp_path):
    make(tmp_path, "b.jsonl", "a.jsonl", "deep/er/c.jsonl", "a.csv")
    assert [name for name, *_ in found(tmp_path, "*.jsonl")] == ["a.jsonl", "b.jsonl"]
    assert len(found(tmp_path, "**/*.jsonl")) == 3


def test_a_name_with_marks_of_a_pattern_is_that_file(tmp_path):
    make(tmp_path, "a[1].jsonl", "a1.jsonl")
    assert [name for name, *_ in found(tmp_path, "a[1].jsonl")] == ["a[1].jsonl"]


@pytest.mark.parametrize(
    ("names", "format", "note"),
    [
        (["a.jsonl", "README.txt", "n.md", "p.png"], "jsonl", "left out: 1 .txt, 1 .png, 1 txt"),
        (["a.csv", "config.json", "dataset_infos.json"], "csv", "left out: 1 .json, 1 json"),
        (["a.json", "notes.txt"], "json", "left out: 1 txt"),
    ],
)
def test_what_lies_beside_records_is_left_out_and_said(tmp_path, names, format, note):
    make(tmp_path, *names)
    sources = find_sources([str(tmp_path)])
    assert [file.format for file in sources.files] == [format]
    assert sources.notes == (f"of {tmp_path}, 1 {format} files are read; {note}",)


def test_a_folder_of_several_formats_is_refused_unless_one_is_chosen(tmp_path):
    make(tmp_path, "a.jsonl", "b.csv", "c.csv")
    message = r"files of 2 formats: 1 jsonl \(a.jsonl\), 2 csv \(b.csv\); name the files, or say"
    with pytest.raises(DataError, match=message):
        find_sources([str(tmp_path)])
    assert [name for name, *_ in found(tmp_path, "", format="csv")] == ["b.csv", "c.csv"]


def test_a_file_is_read_once_by_whatever_names_it_comes(tmp_path):
    make(tmp_path, "d/a.jsonl")
    (tmp_path / "d" / "link.jsonl").symlink_to("a.jsonl")
    (tmp_path / "e").symlink_to("d")
    assert len(find_sources([str(tmp_path / n) for n in ("d", "e", "d/a.jsonl", "d/*")]).files) == 1


def test_one_file_in_two_splits_is_refused(tmp_path):
    make(tmp_path, "train.jsonl")
    (tmp_path / "test.jsonl").symlink_to("train.jsonl")
    with pytest.raises(DataError, match=r"train.jsonl \(train\) and .*test.jsonl \(test\) are the"):
        find_sources([str(tmp_path)])


def test_links_that_lead_out_of_a_folder_are_left_out_but_for_the_hub_cache(tmp_path):
    make(tmp_path, "secret.jsonl", "d/a.jsonl", "hub/blobs/123", "hub/snapshots/abc/README.md")
    (tmp_path / "d" / "out.jsonl").symlink_to("../secret.jsonl")
    (tmp_path / "hub" / "snapshots" / "abc" / "train.jsonl").symlink_to("../../blobs/123")
    (tmp_path / "hub" / "snapshots" / "abc" / "out.jsonl").symlink_to("../../../secret.jsonl")
    sources = find_sources([str(tmp_path / "d")])
    assert [file.path.name for file in sources.files] == ["a.jsonl"]
    assert "1 links that lead out of it" in sources.notes[0]
    (file,) = find_sources([str(tmp_path / "hub" / "snapshots" / "abc")]).files
    assert (file.path.name, file.split) == ("train.jsonl", "train")


def test_what_datasets_saved_is_found_by_its_own_lists(tmp_path):
    saved(tmp_path / "d", train=[1, 2], validation=[3], unsupervised=[4])
    make(tmp_path, "d/train/cache-123.arrow", "d/train/left-over.arrow")
    assert found(tmp_path, "d") == [
        ("d/train/data-00000-of-00001.arrow", "train", "arrow"),
        ("d/validation/data-00000-of-00001.arrow", "validation", "arrow"),
        ("d/unsupervised/data-00000-of-00001.arrow", "unsupervised", "arrow"),
    ]
    assert found(tmp_path, "d/validation") == [
        ("d/validation/data-00000-of-00001.arrow", "validation", "arrow")
    ]


def test_a_single_data_set_that_was_saved_is_found(tmp_path):
    saved(tmp_path / "mine", train=[1, 2])
    assert found(tmp_path, "mine") == [("mine/data-00000-of-00001.arrow", "train", "arrow")]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (b"{", "state.json is not valid JSON"),
        (b"{}", "state.json does not list the files"),
        (b'{"_data_files": [{"filename": "../x.arrow"}]}', "state.json does not list"),
        (b'{"_data_files": [7]}', "state.json does not list"),
        (b'{"_data_files": [{"filename": "gone.arrow"}]}', "lacks gone.arrow"),
    ],
)
def test_a_list_of_saved_files_that_cannot_be_right_is_refused(tmp_path, state, message):
    make(tmp_path, "data.arrow", "dataset_info.json")
    make(tmp_path, "state.json", data=state)
    with pytest.raises(DataError, match=message):
        find_sources([str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("trian.jsonl", "does not exist, and no file matches it .*did you mean train.jsonl"),
        ("*.csv", r"no file matches it .*name a file, a folder or a pattern"),
        ("no/such/file", "does not exist"),
        ("nul\0byte", "cannot read|does not exist"),
        ("empty.jsonl", "empty.jsonl is empty; fill it, or leave it out"),
        ("a.xyz", r"does not tell its format: expected one of .*\.jsonl .*say it with --format"),
        ("a.xyz.gz", "does not tell its format"),
        ("a.parquet.gz", r"is parquet, which is not read packed: unpack it \(gzip -dc\)"),
        ("void", "holds no records: expected files ending in .*found nothing; name the files"),
        ("pictures", r"found 1 \.png; name the files"),
        ("emptied", "emptied/train.jsonl is empty"),
    ],
)
def test_what_cannot_be_found_is_said_with_a_remedy(tmp_path, name, message):
    make(tmp_path, "train.jsonl", "a.xyz", "a.xyz.gz", "a.parquet.gz", "pictures/a.png")
    make(tmp_path, "empty.jsonl", "emptied/train.jsonl", data=b"")
    (tmp_path / "void").mkdir()
    with pytest.raises(DataError, match=message):
        find_sources([f"{tmp_path}/{name}"])


def test_no_names_are_an_error():
    with pytest.raises(DataError, match="no data are named"):
        find_sources([])


def test_what_one_document_is_goes_with_the_files(tmp_path):
    make(tmp_path, "a.txt")
    (file,) = find_sources([str(tmp_path)], documents="blank").files
    assert (file.format, file.documents) == ("txt", "blank")
