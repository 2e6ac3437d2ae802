"""Files of one name and several languages are rows of lines that belong together."""

import pytest

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.records import find_sources, rows, work
from hotloop.data.tokenising.token_store import described


def write(folder, **texts):
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_bytes(text.encode())


def read(sources, size=1 << 20):
    faults, found = Faults("skip"), []
    for source in sources:
        for portion in work(source, size=size):
            found += rows(portion, faults)
    return found, faults


@pytest.mark.parametrize("name", ["", "train", "train.de", "train.en"])
def test_a_folder_a_name_or_either_file_gives_both_languages(tmp_path, name):
    write(tmp_path, train_de='ja "so"\nnein\\\t\n', train_en="yes\nno\n")
    (source,) = find_sources([str(tmp_path / name)]).files
    assert source.split == "train"
    found, faults = read([source])
    assert [row for _, row in found] == [
        {"de": 'ja "so"', "en": "yes"},
        {"de": "nein\\\t", "en": "no"},
    ]
    assert [place.line for place, _ in found] == [1, 2]
    assert not faults.count


def test_the_splits_of_a_folder_are_told_by_names(tmp_path):
    write(tmp_path, train_de="a\n", train_en="b\n", dev_de="c\n", dev_en="d\n", notes_md="x")
    assert [file.split for file in find_sources([str(tmp_path)]).files] == ["train", "validation"]


def test_portions_cut_where_they_like_give_the_same_rows(tmp_path):
    lines = [f"line {n}" for n in range(50)]
    write(tmp_path, train_de="\n".join(lines), train_fr="\n".join(reversed(lines)))
    sources = find_sources([str(tmp_path)]).files
    whole, cut = read(sources)[0], read(sources, size=30)[0]
    assert whole == cut
    assert [row["fr"] for _, row in whole] == lines[::-1]


def test_files_of_unlike_length_stop_where_the_shorter_one_ends(tmp_path):
    write(tmp_path, train_de="a\nb\n", train_en="x\n")
    found, faults = read(find_sources([str(tmp_path)]).files)
    assert [row for _, row in found] == [{"de": "a", "en": "x"}]
    assert "en has 1 lines and the others have more" in faults.listed


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path):
    write(tmp_path, train_en="x\ny\n")
    (tmp_path / "train.de").write_bytes(b"a\n\xff\n")
    found, faults = read(find_sources([str(tmp_path)]).files)
    assert len(found) == 1
    assert f"{tmp_path}/train.de:2:1: 0xff" in faults.listed


def test_a_change_of_either_file_changes_the_identity(tmp_path):
    write(tmp_path, train_de="a\n", train_en="b\n")
    before = described(find_sources([str(tmp_path)]).files)
    write(tmp_path, train_en="c\n")
    after = described(find_sources([str(tmp_path)]).files)
    assert before[0]["xxh3_128"] != after[0]["xxh3_128"]


@pytest.mark.parametrize("names", [("a.cc", "a.hh"), ("a.de", "b.en")])
def test_other_files_of_one_name_are_no_languages(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("x\n")
    with pytest.raises(DataError, match="holds no records"):
        find_sources([str(tmp_path)])


def test_a_lone_carriage_return_ends_no_line(tmp_path):
    (tmp_path / "train.de").write_bytes(b"eins\rx\nzwei\r\ndrei")
    (tmp_path / "train.en").write_bytes(b"one\ntwo\nthree\n")
    found, faults = read(find_sources([str(tmp_path)]).files)
    assert [row for _, row in found] == [
        {"de": "eins\rx", "en": "one"},
        {"de": "zwei", "en": "two"},
        {"de": "drei", "en": "three"},
    ]
    assert not faults.count
