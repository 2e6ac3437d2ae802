"""Documents by length and digest: from a folder of tokens and straight from the rows."""

import json

import numpy as np
import pytest
from tests.data.tokenising.test_tokenize import jsonl, lines, make
from tests.golden.tiny_tokenizer import save, tokenizer

from hotloop.core.errors import DataError
from hotloop.data.readers.prose import PIECE_BYTES
from hotloop.data.readers.records import find_sources
from hotloop.data.statistics.document_digests import of_sources, of_store
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.token_store import open_store
from hotloop.data.tokenising.tokenizer_files import find_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save(folder)
    return folder


def straight(model, *sources, documents="file", **wanted):
    wanted = {"portion": 4096, "processes": 0, "backend": "tokenizers", **wanted}
    order = TokenizeRequest(vocabulary=find_tokenizer(str(model)), out=model / "unused", **wanted)
    named = find_sources([str(source) for source in sources], documents=documents)
    found = of_sources(named.files, order)
    assert not order.out.exists()
    return found


@pytest.fixture
def asked(tmp_path):
    rows = [{"prompt": line, "response": line[:20]} for line in lines(150)]
    return jsonl(tmp_path / "train.jsonl", rows)


def keys(found):
    """Return the documents in any order: length and digest."""
    return sorted(zip(found.lengths.tolist(), map(tuple, found.digests.tolist()), strict=True))


def test_rows_and_the_folder_made_of_them_hold_the_same_documents(model, asked, tmp_path):
    make(model, tmp_path / "out", asked, packing=Packing(longest=4096))
    make(model, tmp_path / "packed", asked, packing=Packing(tokens=512))
    (rows,), setup, _ = straight(model, asked)
    assert setup.layout.shape == "prompt"
    (cut,), notes = of_store(open_store(tmp_path / "out"))
    (packed,), more = of_store(open_store(tmp_path / "packed"))
    assert notes == more == []
    assert len(rows.lengths) == 150
    assert rows.learned == cut.learned == packed.learned < rows.lengths.sum()
    assert rows.lengths.tolist() == cut.lengths.tolist()
    # ids have 16 bits in a folder and 32 on the way: their digests are not compared
    assert keys(cut) == keys(packed)
    for index in (0, 77, 149):
        mine, theirs = rows.tokens(index), cut.tokens(index)
        assert mine.ids.tolist() == theirs.ids.tolist()
        assert mine.mask.tolist() == theirs.mask.tolist()
        assert len(mine.ids) == rows.lengths[index]


def test_tokens_of_packed_documents_are_found_by_their_index(model, asked, tmp_path):
    make(model, tmp_path / "packed", asked, packing=Packing(tokens=512), window=2000)
    store = open_store(tmp_path / "packed")
    assert len(store.splits["train"].batches()) > 2
    (packed,), _ = of_store(store)
    known = {tuple(tokenizer().encode(row).ids) for row in _whole(asked)}
    for index in range(len(packed.lengths)):
        found = packed.tokens(index)
        assert len(found.ids) == len(found.mask) == packed.lengths[index]
        assert tuple(found.ids[:-1].tolist()) in known


def _whole(path):
    rows = map(json.loads, path.read_text().splitlines())
    return [f"{row['prompt']}\n{row['response']}" for row in rows]


def test_any_number_of_processes_finds_the_same(model, asked):
    (one,), _, _ = straight(model, asked)
    (two,), _, _ = straight(model, asked, processes=2)
    assert one.digests.tolist() == two.digests.tolist()
    assert one.learned == two.learned


def test_a_long_text_file_is_one_document(model, tmp_path):
    text = "a lazy dog\n" * (PIECE_BYTES // 11 + 100)
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text("the quick fox\n\na dog\n")
    (found,), _, _ = straight(model, tmp_path, portion=PIECE_BYTES)
    assert len(found.lengths) == 2
    pieces = [len(tokenizer().encode("a lazy dog\n").ids), PIECE_BYTES // 11 + 100]
    assert found.lengths[0] == pieces[0] * pieces[1] + 1, "and the end of it"
    assert found.learned == found.lengths.sum()
    first = found.tokens(0)
    assert 0 < first.more == found.lengths[0] - len(first.ids)
    assert found.tokens(1).more == 0
    assert found.tokens(1).ids.tolist() == [*tokenizer().encode("the quick fox\n\na dog\n").ids, 1]
    (blank,), _, _ = straight(model, tmp_path / "b.txt", documents="blank")
    assert len(blank.lengths) == 2


def test_cut_texts_are_said_to_be_pieces(model, asked, tmp_path):
    make(model, tmp_path / "packed", asked, packing=Packing(tokens=16))
    make(model, tmp_path / "cut", asked, packing=Packing(longest=16))
    (packed,), notes = of_store(open_store(tmp_path / "packed"))
    assert packed.lengths.max() == 16
    assert not packed.is_whole
    assert len(notes) == 1
    assert f"there are {len(packed.lengths) - 150:,} pieces more than texts" in notes[0]
    (cut,), notes = of_store(open_store(tmp_path / "cut"))
    assert len(notes) == 1
    assert "tokens were cut off before" in notes[0]
    assert cut.unlearned > 0, "the response of a long prompt is gone"
    assert not cut.is_whole
    make(model, tmp_path / "whole", asked, packing=Packing(tokens=512))
    (whole,), _ = of_store(open_store(tmp_path / "whole"))
    assert whole.is_whole


def test_labels_and_bad_rows_are_counted(model, tmp_path):
    rows = [{"premise": "a dog", "hypothesis": f"the fox {n}", "label": n % 3} for n in range(20)]
    source = jsonl(tmp_path / "train.jsonl", [*rows, {"premise": "", "label": 0}])
    with pytest.raises(DataError, match=r"train\.jsonl:21"):
        straight(model, source)
    (found,), _, _ = straight(model, source, policy="skip")
    assert (len(found.lengths), found.bad) == (20, 1)
    assert found.labels == {"0": 7, "1": 7, "2": 6}
    make(model, tmp_path / "out", source, packing=Packing(), policy="skip")
    (stored,), _ = of_store(open_store(tmp_path / "out"))
    assert (stored.labels, stored.bad) == (found.labels, 1)


def test_equal_texts_have_equal_digests_and_no_others(model, tmp_path):
    rows = [{"text": line} for line in ["a dog", "a fox", "a dog", "a dog "]]
    (found,), _, _ = straight(model, jsonl(tmp_path / "train.jsonl", rows))
    digests = list(map(tuple, found.digests.tolist()))
    assert digests[0] == digests[2]
    assert len(set(digests)) == 3
    assert found.digests.dtype == np.uint64
