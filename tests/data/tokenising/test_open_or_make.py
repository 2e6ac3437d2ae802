"""A run gets the tokens it asks for: from the folder that has them, or made on the fly and said."""

import re
from dataclasses import replace

import pytest
from tests.data.tokenising.test_tokenize import content, ids_of, jsonl, lines
from tests.golden.tiny_tokenizer import save

from hotloop.data.readers.records import find_sources
from hotloop.data.tokenising.open_or_make import own, ready
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.tokenize import tokenise
from hotloop.data.tokenising.tokenizer_files import find_tokenizer


@pytest.fixture
def order(tmp_path):
    save(tmp_path / "model")
    return TokenizeRequest(
        vocabulary=find_tokenizer(str(tmp_path / "model")),
        out=tmp_path / "out",
        packing=Packing(tokens=64),
        processes=0,
        backend="tokenizers",
    )


@pytest.fixture
def sources(tmp_path):
    path = jsonl(tmp_path / "train.jsonl", [{"text": line} for line in lines(100)])
    return find_sources([str(path)]).files


def test_the_folder_that_fits_is_used_and_nothing_is_made(order, sources, tmp_path):
    tokenise(sources, order)
    found = ready(sources, order, cache=tmp_path / "cache")
    assert found.store.folder == order.out
    assert found.notes == ()
    assert not (tmp_path / "cache").exists()


def test_another_length_is_made_on_the_fly_once_and_said(order, sources, tmp_path):
    tokenise(sources, order)
    before, other = content(order.out), replace(order, packing=Packing(tokens=32))
    found = ready(sources, other, cache=tmp_path / "cache")
    assert found.store.identity["length"] == 32
    assert "length: 64, not 32" in found.notes[0]
    assert re.search(r"Tokenised on the fly, which took \d\S* \w+: ", found.notes[0])
    assert content(order.out) == before
    again = ready(sources, other, cache=tmp_path / "cache")
    assert again.store.folder == found.store.folder
    assert "which an earlier run did" in again.notes[0]
    tokenise(sources, replace(other, out=tmp_path / "by_hand"))
    assert (ids_of(again.store.folder) == ids_of(tmp_path / "by_hand")).all()


def test_no_folder_and_a_damaged_one_are_made_on_the_fly(order, sources, tmp_path):
    found = ready(sources, order, cache=tmp_path / "cache")
    assert "holds no tokens" in found.notes[0]
    tokenise(sources, order)
    file = order.out / "train" / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:-8])
    assert "is damaged" in ready(sources, order, cache=tmp_path / "cache").notes[0]


@pytest.mark.parametrize("change", ["length", "data"])
def test_the_note_names_what_differs(order, sources, tmp_path, change):
    tokenise(sources, order)
    if change == "length":
        order = replace(order, packing=Packing(tokens=32))
    else:
        jsonl(tmp_path / "train.jsonl", [{"text": line} for line in lines(100, seed=1)])
    notes = ready(sources, order, cache=tmp_path / "cache").notes
    assert ("length: 64, not 32" if change == "length" else "changed") in notes[0]


def flipped(folder):
    """Change a byte of the tokens; their number stays."""
    file = folder / "train" / "data-00000-of-00001.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_tokens_with_a_flipped_bit_are_never_trained_on(order, sources, tmp_path):
    tokenise(sources, order)
    before = content(order.out)
    flipped(order.out)
    found = ready(sources, order, cache=tmp_path / "cache")
    assert "is damaged: train/data-00000-of-00001.arrow" in found.notes[0]
    again = found.store.folder
    assert content(again).keys() == before.keys()
    flipped(again)
    found = ready(sources, order, cache=tmp_path / "cache")
    assert any("cached tokens were damaged and are made again" in note for note in found.notes)
    assert found.store.folder == again
    other = ready(sources, order, cache=tmp_path / "other")
    assert (
        content(again)["train/data-00000-of-00001.arrow"]
        == content(other.store.folder)["train/data-00000-of-00001.arrow"]
    )


def test_the_same_data_by_another_path_have_the_same_tokens(order, sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenise(sources, order)
    (relative,) = find_sources(["train.jsonl"]).files
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "mine.jsonl").write_bytes((tmp_path / "train.jsonl").read_bytes())
    moved = find_sources([str(tmp_path / "moved" / "mine.jsonl")]).files
    moved = [replace(each, split=relative.split) for each in moved]
    for other in ([relative], moved):
        found = ready(other, order, cache=tmp_path / "cache")
        assert (found.store.folder, found.notes) == (order.out, ())
    first = own(sources, order, cache=tmp_path / "cache")[0]
    assert first.is_new
    assert not own(moved, order, cache=tmp_path / "cache")[0].is_new
