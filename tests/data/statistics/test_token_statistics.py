"""Statistics of lengths that are known, and the advice that follows from them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.statistics.document_digests import Digested, Tokens
from hotloop.data.statistics.padding_strategies import strategies
from hotloop.data.statistics.token_statistics import BINS, POWERS, statistics

DRAWN = np.random.default_rng(0).integers(5, 300, 400)


def digested(lengths, *, split="train", labels=None, learned=None, is_whole=True):
    lengths = np.array(lengths, np.int64)
    each = np.arange(len(lengths), dtype=np.uint64)
    return Digested(
        split=split,
        lengths=lengths,
        digests=np.stack([each, each], axis=1),
        learned=int(lengths.sum()) if learned is None else learned,
        unlearned=0,
        bad=0,
        labels=labels or {},
        tokens=lambda index: Tokens(ids=np.full(lengths[index], index)),
        is_whole=is_whole,
    )


def stats(*splits, **wanted):
    wanted = {"name": "data", "tokenizer": "tok", "source": None, "shape": "text", **wanted}
    return statistics(splits, **wanted)


def one(documents, *, labels=None, is_whole=True, **wanted):
    return stats(digested(documents, labels=labels, is_whole=is_whole), **wanted).splits[0]


def way(split, name):
    return next(each for each in split.strategies if each.name == name)


sizes = st.lists(st.integers(1, 3000), min_size=1, max_size=60)


@settings(max_examples=150, deadline=None)
@given(sizes)
def test_every_document_is_in_one_bin_and_lengths_are_those_of_documents(lengths):
    found = one(lengths)
    assert len(found.histogram) <= BINS
    assert sum(each.documents for each in found.histogram) == len(lengths) == found.documents
    for each in found.histogram:
        assert each.documents == sum(each.low <= length <= each.high for length in lengths)
    at = found.lengths
    assert (at.min, at.max) == (min(lengths), max(lengths))
    assert at.min <= at.median <= at.p95 <= at.p99 <= at.max
    ranked = sorted(lengths)
    for value, share in ((at.median, 0.5), (at.p95, 0.95), (at.p99, 0.99)):
        assert value in ranked
        assert sum(length <= value for length in lengths) >= share * len(lengths)
        assert sum(length < value for length in lengths) < share * len(lengths)


@settings(max_examples=100, deadline=None)
@given(sizes, st.lists(st.integers(1, 3500), min_size=1, max_size=4))
def test_what_is_cut_off_is_what_counting_finds(lengths, asked):
    found = one(lengths, lengths=asked)
    assert [cut.length for cut in found.cuts] == sorted(set(asked))
    for cut in found.cuts:
        lost = sum(max(0, length - cut.length) for length in lengths)
        assert cut.tokens == lost / sum(lengths)
        assert cut.documents == sum(length > cut.length for length in lengths) / len(lengths)


@pytest.mark.parametrize(
    ("lengths", "powers"),
    [
        ([40, 300], [64, 128, 256, 512]),
        ([64], [64]),
        ([3, 60], [32, 64]),
        ([1, 3], [4]),
        ([400_000], [1 << n for n in range(10, 20)]),
        ([700, 1100], [512, 1024, 2048]),
    ],
)
def test_truncation_is_told_at_powers_of_two_up_to_where_all_are_whole(lengths, powers):
    cuts = one(lengths).cuts
    assert [cut.length for cut in cuts] == powers
    assert len(powers) <= POWERS
    assert cuts[-1].documents == 0


def test_the_length_is_the_longest_document_of_any_split_rounded_up():
    found = stats(digested([10, 65]), digested([200], split="test"))
    assert found.length == 256
    assert stats(digested([10, 128])).length == 128
    assert stats(digested([10, 65]), length=50).length == 50


def test_strategies_are_those_of_padding_with_slots_by_those_of_dynamic():
    found = one(DRAWN, batch=8)
    expected = strategies(DRAWN, batch=8, longest=320)
    assert [each.name for each in found.strategies] == list(expected)
    for name, padding in expected.items():
        mine = way(found, name)
        assert (mine.padding, mine.steps, mine.lost) == (padding.share, padding.batches, 0)
        slots = (1 - expected["dynamic"].share) / (1 - padding.share)
        assert mine.saves == pytest.approx(1 - slots)
    assert way(found, "dynamic").saves == 0


def test_packing_cuts_long_documents_into_pieces_where_others_lose_tokens():
    found = one([10] * 50 + [1000] * 10, length=100, batch=4)
    assert way(found, "dynamic").lost == pytest.approx(10 * 900 / 10_500)
    packed = way(found, "packed")
    assert packed.lost == 0
    assert (packed.padding, packed.steps) == (0.0, -(-105 // 4))
    assert found.recommended == "packed"
    assert "10 of 60 documents are longer than 100 tokens" in found.why
    assert "cutting off loses 85.7% of the tokens" in found.why


def test_texts_for_a_decoder_are_packed_and_stay_whole():
    found = one(DRAWN)
    assert found.recommended == "packed"
    assert "every document stays whole" in found.why
    assert "fewer slots" in found.why


def test_pieces_of_texts_that_were_cut_are_not_called_whole():
    found = one(DRAWN, is_whole=False)
    assert found.recommended == "packed"
    assert found.why == one(DRAWN).why.removesuffix(", and every document stays whole")
    assert "whole" not in found.why


def test_widths_are_rounded_up_as_asked():
    for multiple in (1, 8, 64):
        found = stats(digested(DRAWN), multiple=multiple)
        known = strategies(DRAWN, batch=16, longest=found.length, round_to=multiple)
        ways = {each.name: each.padding for each in found.splits[0].strategies}
        assert ways == {name: each.share for name, each in known.items()}
        assert found.to_json()["multiple"] == multiple
    assert stats(digested(DRAWN)).multiple == 8


@pytest.mark.parametrize("wanted", [{"shape": "pair"}, {"labels": {"a": 200, "b": 200}}])
def test_pairs_and_labelled_texts_take_a_budget(wanted):
    found = one(np.tile(DRAWN, 10), **wanted)
    assert found.recommended == "budget"
    assert way(found, "packed").saves > way(found, "budget").saves > 0.02


def test_few_pairs_are_bucketed_where_that_saves_more():
    found = one(DRAWN, shape="pair")
    assert found.recommended == "bucketed"
    assert way(found, "bucketed").saves > way(found, "budget").saves + 0.02


def test_rows_that_do_not_fit_together_are_not_packed():
    lengths = np.random.default_rng(0).integers(520, 1000, 400)
    found = one(lengths)
    assert found.recommended in ("budget", "bucketed")
    assert way(found, found.recommended).saves > way(found, "packed").saves + 0.02
    assert "packed rows of this length would hold more padding" in found.why


@pytest.mark.parametrize("shape", ["text", "pair"])
def test_dynamic_is_enough_where_nothing_saves_two_percent(shape):
    found = one(np.random.default_rng(0).integers(98, 105, 400), shape=shape, length=104)
    assert found.recommended == "dynamic"
    assert "less than 2%: dynamic is enough" in found.why
    assert max(each.saves for each in found.strategies) < 0.02


def test_max_is_for_rows_of_one_length_alone():
    assert one([64] * 100).recommended == "max"
    assert one([200] * 100, shape="pair", length=128).recommended == "max"
    assert one([64] * 99 + [63]).recommended != "max"
    assert one([200] * 100, length=128).recommended == "packed"


def test_one_long_text_is_for_rows_of_the_length_of_the_model():
    found = one([400_000])
    assert found.recommended == "packed"
    assert "--length" in found.why
    assert one([30], shape="pair").recommended == "dynamic"
    cut = one([400_000], length=1024)
    assert way(cut, "packed").steps == -(-391 // 16)


def test_labels_come_by_frequency_with_the_imbalance():
    found = one([9] * 10, labels={"rare": 2, "usual": 6, "b": 2})
    assert [(label.name, label.documents, label.share) for label in found.labels] == [
        ("usual", 6, 0.6),
        ("b", 2, 0.2),
        ("rare", 2, 0.2),
    ]
    assert found.imbalance == 3
    assert one([9]).imbalance is None


def test_samples_and_copies_are_shown_as_text():
    train, test = digested([3, 5]), digested([3], split="test")
    found = stats(train, test, samples=1)
    assert [span.text for span in found.splits[0].samples[0]] == ["0 0 0 "]
    assert len(found.splits[0].samples) == len(found.splits[1].samples) == 1
    leak = found.copies[-1]
    assert (leak.copies.split, leak.copies.of, leak.copies.documents) == ("test", "train", 1)
    assert leak.text[0].text == "0 0 0 "
    assert found.copies[0].text == ()
    assert stats(train, samples=0).splits[0].samples == ()


def test_json_holds_everything():
    plain = stats(digested([3, 5], labels={"a": 2}), notes=["so"]).to_json()
    assert json.loads(json.dumps(plain, allow_nan=False))["schema"] == 1
    assert plain["splits"][0]["lengths"]["mean"] == 4
    assert plain["notes"] == ["so"]


def test_no_split_is_refused():
    with pytest.raises(DataError, match="no split"):
        stats()
