import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.data.readers.file_names import base_of, format_of, split_of
from hotloop.data.readers.split_words import is_split


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.jsonl", "jsonl"),
        ("a.NDJSON", "jsonl"),
        ("a.csv.gz", "csv.gz"),
        ("a.jsonl.zst", "jsonl.zst"),
        ("a.parquet", "parquet"),
        ("a.parquet.gz", None),
        ("a.tar.gz", None),
        ("a", None),
        (".jsonl", None),
        ("requirements-dev.txt", None),
        ("LICENSE.txt", None),
        ("dataset_info.json", None),
        ("package-lock.json", None),
        ("my-package.json", "json"),
    ],
)
def test_the_suffix_is_the_format(name, format):
    assert format_of(name) == format


@pytest.mark.parametrize(
    ("name", "split", "base"),
    [
        ("train.jsonl", "train", ""),
        ("dev.jsonl.gz", "validation", ""),
        ("train-00000-of-00002.parquet", "train", ""),
        ("math_test.csv", "test", "math"),
        ("Valid.txt", "validation", ""),
        ("xquad.en.json", None, "xquad.en"),
        ("my.train.v2.jsonl", "train", "my.v2"),
        ("part-00017.arrow", None, "part"),
        ("0001.parquet", None, ""),
        ("wiki103.txt", None, "wiki103"),
        ("alpaca_2024.json", None, "alpaca_2024"),
        ("trained.txt", None, "trained"),
        ("eval_latest.json", "test", "latest"),
        ("testament.txt", None, "testament"),
        ("newstest2014.de", "test", "2014.de"),
        ("newsdev2016-enro.tsv", "validation", "2016-enro"),
        ("newstest.txt", None, "newstest"),
    ],
)
def test_files_of_one_set_have_one_base(name, split, base):
    assert (split_of(name), base_of(name)) == (split, base)


def test_a_folder_may_be_a_split():
    assert is_split("train")
    assert is_split("Validation")
    assert not is_split("trains")


@given(
    base=st.text("abcxyz", min_size=1).filter(lambda text: not is_split(text)),
    split=st.sampled_from(["train", "dev", "validation", "test"]),
    shard=st.sampled_from(["", "-00000-of-00003", "_0001"]),
    suffix=st.sampled_from([".jsonl", ".csv.gz", ".parquet", ""]),
    joint=st.sampled_from("-_."),
)
def test_splits_and_shards_are_found_in_every_spelling(base, split, shard, suffix, joint):
    for name in (f"{base}{joint}{split}", f"{split}{joint}{base}"):
        assert base_of(f"{name}{shard}{suffix}") == base
        assert split_of(f"{name}{shard}{suffix}") == split_of(split)


@given(st.text(max_size=40))
def test_any_name_can_be_read(name):
    assert format_of(name) is None or format_of(name).split(".")[0] in name.lower() + "jsonl"
    assert split_of(name) in (None, "train", "validation", "test")
    assert len(base_of(name)) <= len(name)
