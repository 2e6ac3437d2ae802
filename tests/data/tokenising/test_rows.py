"""Rows are made of windows of tokens: nothing is lost, nothing is there twice, masks go along."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.tokenising.arrow_file import Columns
from hotloop.data.tokenising.encode import Encoded
from hotloop.data.tokenising.rows import Packing, TextWindow

lengths_of = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def encoded(lengths, first=0):
    """Return tokens that are all different, with a mask that depends on the token."""
    ids = np.arange(first, first + sum(lengths), dtype=np.uint32)
    return Encoded(
        ids=ids,
        lengths=np.array(lengths, np.int64),
        columns={"loss_mask": (ids % 3 > 0).astype(np.uint8)},
    )


def window(**packing):
    made = Packing(**packing)
    columns = Columns(is_narrow=True, is_packed=made.tokens is not None, mask="completion_mask")
    return TextWindow(columns=columns, packing=made)


def split(rows, values, counts):
    return [part.tolist() for part in np.split(values, np.cumsum(counts)[:-1])]


@settings(max_examples=60, deadline=None)
@given(lengths_of, st.integers(1, 50), st.sampled_from(["best-fit", "concat"]))
def test_packing_loses_and_repeats_no_token(lengths, tokens, strategy):
    gathered = window(tokens=tokens, strategy=strategy)
    gathered.add(encoded(lengths), {})
    rows, lost = gathered.take()
    assert lost == 0
    assert sorted(rows.ids.tolist()) == list(range(sum(lengths)))
    assert np.array_equal(rows.bytes_["completion_mask"], (rows.ids % 3 > 0).astype(np.uint8))
    assert rows.lengths.max() <= tokens
    assert rows.documents.sum() == rows.lengths.sum() == sum(lengths)
    assert rows.counts.sum() == len(rows.documents)
    # What `documents` says is one run of one document, in its order.
    ends = np.cumsum(lengths)
    for part in split(rows, rows.ids, rows.documents):
        assert part == list(range(part[0], part[0] + len(part)))
        assert np.searchsorted(ends, part[0], "right") == np.searchsorted(ends, part[-1], "right")


@settings(max_examples=40, deadline=None)
@given(lengths_of)
def test_a_document_that_fits_stays_whole(lengths):
    gathered = window(tokens=40)
    gathered.add(encoded(lengths), {})
    rows, _ = gathered.take()
    assert sorted(rows.documents.tolist()) == sorted(lengths)


@settings(max_examples=40, deadline=None)
@given(st.lists(lengths_of, min_size=1, max_size=4), st.integers(1, 50), st.booleans())
def test_cutting_a_text_in_windows_gives_the_rows_of_one_window(blocks, tokens, resumed):
    flat = [length for block in blocks for length in block]
    whole = window(tokens=tokens, strategy="concat")
    whole.add(encoded(flat), {})
    expected, _ = whole.take()
    found, masks, documents, at = [], [], [], 0
    gathered = window(tokens=tokens, strategy="concat")
    for number, block in enumerate(blocks):
        gathered.add(encoded(block, at), {})
        at += sum(block)
        rows, lost = gathered.take(is_last=number == len(blocks) - 1)
        assert lost == 0
        found += split(rows, rows.ids, rows.lengths) if len(rows.lengths) else []
        masks += rows.bytes_["completion_mask"].tolist()
        documents += rows.documents.tolist()
        if resumed:  # another process goes on
            carried, gathered = gathered.carried(), window(tokens=tokens, strategy="concat")
            gathered.restore(carried)
    assert found == split(expected, expected.ids, expected.lengths)
    assert masks == expected.bytes_["completion_mask"].tolist()
    assert documents == expected.documents.tolist()


def test_without_packing_a_text_is_a_row_and_a_long_one_is_cut_off():
    gathered = window(longest=4)
    gathered.add(encoded([2, 6, 4]), {"label": ["a", "b", "c"]})
    rows, lost = gathered.take()
    assert split(rows, rows.ids, rows.lengths) == [[0, 1], [2, 3, 4, 5], [8, 9, 10, 11]]
    assert lost == 2
    assert rows.words == {"label": ["a", "b", "c"]}
    assert gathered.tokens == 0
    rows, lost = gathered.take()
    assert (len(rows.lengths), lost) == (0, 0)


@pytest.mark.parametrize("packing", [{}, {"tokens": 8}, {"tokens": 8, "strategy": "concat"}])
def test_an_empty_window_has_no_rows(packing):
    rows, lost = window(**packing).take()
    assert (len(rows.ids), len(rows.lengths), len(rows.documents), lost) == (0, 0, 0, 0)
