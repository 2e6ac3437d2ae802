"""How much padding batches would have: what a run's own batches have."""

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden.tiny_tokenizer import save

from hotloop.data.readers.records import find_sources
from hotloop.data.sampling import padded_or_flat
from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.padded_or_flat import padding_share
from hotloop.data.sampling.token_rows import Form, TokenRows
from hotloop.data.tokenising.open_or_make import own
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.tokenizer_files import find_tokenizer


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return tokens of 90 rows of very different lengths."""
    folder = tmp_path_factory.mktemp("layouts")
    save(folder / "model")
    texts = [{"text": "so " * (1 + 7 * at % 61)} for at in range(90)]
    sources = find_sources([str(jsonl(folder / "rows.jsonl", texts))]).files
    order = TokenizeRequest(
        vocabulary=find_tokenizer(str(folder / "model")), out=folder, processes=0
    )
    return own(sources, order, cache=folder / "cache")[1]


def rows_of(store, *, like, round_to=8):
    form = Form(pad=0, round_to=round_to)
    return TokenRows(store, "train", form=form, seed=3, shuffle=True, like=like)


@pytest.mark.parametrize("like", [None, 12])
@pytest.mark.parametrize("round_to", [1, 8])
@pytest.mark.parametrize("micro", [3, 12])
def test_it_is_the_padding_of_the_runs_own_batches(store, like, round_to, micro):
    rows = rows_of(store, like=like, round_to=round_to)
    slots = tokens = 0
    for first in range(0, len(rows), 12):
        for begin, count in by_tokens(rows, 0, first, min(12, len(rows) - first), micro):
            mask = rows.batch(0, begin, count).tensors["attention_mask"]
            slots, tokens = slots + mask.numel(), tokens + int(mask.sum())
    found = padding_share(rows, batch=12, micro=micro)
    assert found == pytest.approx(1 - tokens / slots)
    assert 0 < found < 1


def test_rows_of_like_length_have_less(store):
    alike, mixed = (padding_share(rows_of(store, like=n), batch=12, micro=3) for n in (12, None))
    assert alike < mixed


def test_of_many_steps_some_are_looked_at(store, monkeypatch):
    rows = rows_of(store, like=None)
    whole = padding_share(rows, batch=2, micro=2)
    monkeypatch.setattr(padded_or_flat, "_LOOKED_AT", 15)
    assert padding_share(rows, batch=2, micro=2) == pytest.approx(whole, abs=0.15)
    assert padding_share(rows, batch=2, micro=2) != whole
