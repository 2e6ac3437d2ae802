"""A run gets the tokens it asks for: from the folder that has them, or made on the fly and said."""

from dataclasses import replace

import pytest
from tests.data.test_tokenise import content, ids_of, jsonl, lines
from tests.golden.tiny_tokenizer import save

from hotloop.core.errors import DataError
from hotloop.core.units import duration
from hotloop.data.preparing import Order
from hotloop.data.ready import ready
from hotloop.data.records import find_sources
from hotloop.data.rows import Packing
from hotloop.data.tokenise import tokenise
from hotloop.data.tokenizer import find_tokenizer


@pytest.fixture
def order(tmp_path):
    save(tmp_path / "model")
    return Order(
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
    assert (found.notes, found.seconds) == ((), 0.0)
    assert not (tmp_path / "cache").exists()


def test_another_length_is_made_on_the_fly_once_and_said(order, sources, tmp_path):
    tokenise(sources, order)
    before, other = content(order.out), replace(order, packing=Packing(tokens=32))
    found = ready(sources, other, cache=tmp_path / "cache")
    assert found.store.identity["length"] == 32
    assert "length: 64, not 32" in found.notes[0]
    assert f"Tokenised on the fly, which took {duration(found.seconds)}: " in found.notes[0]
    assert found.seconds > 0
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
def test_only_the_folder_is_used_where_that_is_asked_for(order, sources, tmp_path, change):
    tokenise(sources, order)
    if change == "length":
        order = replace(order, packing=Packing(tokens=32))
    else:
        jsonl(tmp_path / "train.jsonl", [{"text": line} for line in lines(100, seed=1)])
    with pytest.raises(DataError, match="length: 64, not 32" if change == "length" else "changed"):
        ready(sources, order, cache=tmp_path / "cache", use="only")
    assert not (tmp_path / "cache").exists()
