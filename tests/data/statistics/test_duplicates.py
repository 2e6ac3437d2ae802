"""Copies against counting them in plain Python."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.statistics.duplicates import copies

SPLITS = ("train", "validation", "test")


def digests(values):
    """Two words each; the first word alone would not tell all apart."""
    return np.array([(value // 3, value % 3) for value in values], np.uint64).reshape(-1, 2)


def by_pair(found):
    return {(one.split, one.of): one for one in found}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 12), max_size=12), min_size=1, max_size=3))
def test_copies_are_those_that_counting_finds(values):
    named = dict(zip(SPLITS, values, strict=False))
    found = by_pair(copies({name: digests(each) for name, each in named.items()}))
    assert len(found) == len(named) * (len(named) + 1) // 2
    for (split, of), one in found.items():
        mine, theirs = named[split], named[of]
        expected = (
            len(mine) - len(set(mine)) if split == of else sum(each in theirs for each in mine)
        )
        assert one.documents == expected
        assert one.share == expected / max(1, len(mine))
        assert (one.example is None) == (expected == 0) == (one.times == 0)
        if one.example is not None:
            both = Counter(mine) + (Counter() if split == of else Counter(theirs))
            most = max(n for each, n in both.items() if each in mine and each in theirs)
            assert both[mine[one.example]] == one.times == most
            assert mine.index(mine[one.example]) == one.example, "the first of its kind"


def test_no_split_has_no_copies():
    assert copies({}) == ()


def test_splits_are_compared_with_earlier_ones_only():
    found = by_pair(copies({"train": digests([1, 1, 2]), "test": digests([1, 3, 1])}))
    assert set(found) == {("train", "train"), ("test", "test"), ("test", "train")}
    leak = found["test", "train"]
    assert (leak.documents, leak.share, leak.example, leak.times) == (2, 2 / 3, 0, 4)
