from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.sampling.padded_widths import padded, widths

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=30)


def slots(lengths, chosen) -> int:
    return sum(min(width for width in chosen if width >= length) for length in lengths)


@given(lengths=LENGTHS, multiple=st.integers(1, 16))
def test_a_length_goes_up_to_the_next_multiple(lengths, multiple):
    got = padded(np.array(lengths), multiple).tolist()
    assert got == [min(w for w in range(0, 99, multiple) if w >= one) for one in lengths]
    assert got == padded(np.array(lengths, dtype=np.uint8), np.int64(multiple)).tolist()


def test_a_length_goes_up_to_the_next_of_given_widths():
    assert padded(np.array([1, 5, 6, 9]), np.array([5, 9])).tolist() == [5, 5, 9, 9]


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([], "expected samples, got none; check the files"),
        ([2, 0, 3], "sample 1 has 0 tokens, but 1 or more are needed"),
        ([2, 11, 3], "sample 1 has 11 tokens, but the widest width is 10; add a width"),
    ],
)
def test_lengths_that_no_batch_can_hold_are_refused(lengths, said):
    with pytest.raises(DataError, match=said):
        padded(np.array(lengths, dtype=np.int64), np.array([4, 10]))


@given(
    lengths=st.lists(st.integers(1, 10), min_size=1, max_size=30),
    most=st.integers(1, 12),
    multiple=st.integers(1, 3),
)
@settings(max_examples=60)
def test_the_widths_are_those_of_trying_them_all(lengths, most, multiple):
    chosen = widths(np.array(lengths), most, multiple=multiple).tolist()
    possible = range(multiple, 10 + multiple, multiple)
    best = min(
        slots(lengths, some)
        for count in range(1, min(most, len(possible)) + 1)
        for some in combinations(possible, count)
        if max(some) >= max(lengths)
    )
    assert slots(lengths, chosen) == best
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= most
    assert set(chosen) <= set(possible)


def test_widths_for_a_long_tail_leave_far_less_padding_than_quantiles():
    drawn = np.random.default_rng(0).lognormal(np.log(180) - 0.5, 1, 20_000)
    lengths = np.clip(np.rint(drawn), 1, 2048).astype(np.int64)
    even = padded(np.quantile(lengths, np.arange(1, 9) / 8, method="higher").astype(np.int64), 8)
    chosen = widths(lengths, 8)
    assert len(chosen) == len(even) == 8
    assert slots_of(lengths, chosen) < 0.7 * slots_of(lengths, even)


def slots_of(lengths, chosen) -> int:
    return int(padded(lengths, chosen).sum())
