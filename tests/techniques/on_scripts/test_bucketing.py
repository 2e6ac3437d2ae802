import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.techniques.on_scripts.bucketing import (
    Gain,
    by_count,
    by_tokens,
    fewest,
    in_order,
    padded,
    shuffled,
    widths,
)

LENGTHS = st.lists(st.integers(0, 300), min_size=1, max_size=400).map(
    lambda values: np.array(values, np.int32)
)
ROWS = st.integers(1, 17)


def lognormal(count: int) -> np.ndarray:
    """The distribution of PEERS: a mean of 180, 2,048 at most."""
    drawn = np.random.default_rng(3).lognormal(math.log(180) - 0.5, 1.0, count)
    return np.clip(drawn.astype(np.int32), 1, 2048)


@given(LENGTHS, ROWS)
@settings(max_examples=60, deadline=None)
def test_by_count_each_sample_comes_once_in_batches_of_the_sizes_there_were(lengths, rows):
    batches = list(by_count(lengths, rows))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert [len(batch) for batch in batches] == [len(b) for b in in_order(lengths, rows)]


@given(LENGTHS, ROWS, st.sampled_from([1, 8]), st.integers(0, 5000))
@settings(max_examples=60, deadline=None)
def test_by_tokens_each_sample_comes_once_in_no_more_batches(lengths, rows, multiple, tokens):
    plain = len(list(in_order(lengths, rows)))
    as_many = list(by_tokens(lengths, rows, multiple=multiple))
    asked = list(by_tokens(lengths, rows, multiple=multiple, tokens=tokens))
    for batches in (as_many, asked):
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
        assert all(map(len, batches))
    assert len(as_many) == plain
    assert len(asked) <= plain


@given(LENGTHS, ROWS)
@settings(max_examples=60, deadline=None)
def test_what_is_left_over_stays_together_and_comes_last(lengths, rows):
    left = len(lengths) % rows
    for batches in (list(by_count(lengths, rows)), list(by_tokens(lengths, rows))):
        if left:
            assert batches[-1].tolist() == list(range(len(lengths) - left, len(lengths)))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_the_budget_is_the_least_that_makes_so_few_batches(values, number):
    number = min(number, len(values))
    falling = np.array(sorted(values, reverse=True), np.int32)

    def batches(budget: int) -> int:
        made, left = 0, list(falling)
        while left:
            fitting = max(1, budget // int(left[0]))
            made, left = made + 1, left[fitting:]
        return made

    found = fewest(falling, number)
    assert batches(found) <= number
    assert found == falling[0] or batches(found - 1) > number


def test_the_same_order_makes_the_same_batches_and_nothing_is_drawn():
    lengths = lognormal(1000)
    before = np.random.get_state()[1].tolist()
    for divide in (by_count, by_tokens):
        one, other = (list(divide(lengths, 8)) for _ in range(2))
        assert all(map(np.array_equal, one, other))
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize(("divide", "left"), [(by_count, 0.13), (by_tokens, 0.05)])
def test_most_of_the_padding_goes(divide, left):
    lengths = lognormal(8000)
    plain = padded(lengths, in_order(lengths, 16))
    assert 1 - lengths.sum() / plain > 0.5
    assert 1 - lengths.sum() / padded(lengths, divide(lengths, 16)) < left


def test_steps_cost_alike_by_tokens_and_not_by_count():
    lengths = lognormal(8000)
    costs = {
        divide: [len(batch) * int(lengths[batch].max()) for batch in divide(lengths, 16)]
        for divide in (by_count, by_tokens)
    }
    spread = {divide: np.std(cost) / np.mean(cost) for divide, cost in costs.items()}
    assert spread[by_tokens] < 0.25 < spread[by_count]
    assert max(costs[by_tokens]) < max(costs[by_count]) / 3


@pytest.mark.parametrize("divide", [by_count, by_tokens])
def test_short_and_long_batches_come_at_random(divide):
    lengths = lognormal(20_000)
    sizes = np.array([lengths[batch].mean() for batch in divide(lengths, 8)])
    places = np.arange(len(sizes))
    assert abs(np.corrcoef(places, np.log(sizes))[0, 1]) < 0.05
    after = np.corrcoef(np.log(sizes[:-1]), np.log(sizes[1:]))[0, 1]
    assert abs(after) < 0.1, "nor does a batch tell of the next"


@pytest.mark.parametrize("divide", [by_count, by_tokens])
def test_batches_of_many_equal_samples_come_at_random_too(divide):
    """The first batch of each quarter of an epoch is as long as any other, over many epochs."""
    draw, kinds = np.random.default_rng(4), np.repeat([2, 60], [300, 60]).astype(np.int32)
    firsts, every = [], []
    for _ in range(200):
        lengths = draw.permutation(kinds)
        sizes = [lengths[batch].mean() for batch in divide(lengths, 6)]
        firsts.append(sizes[0])
        every.append(np.mean(sizes))
    expected, spread = np.mean(every), np.std(firsts) / len(firsts) ** 0.5
    assert abs(np.mean(firsts) - expected) < 4 * spread


def test_a_small_epoch_is_not_sorted_as_a_whole():
    lengths = np.arange(400, dtype=np.int32)[np.random.default_rng(1).permutation(400)]
    first = list(by_count(lengths, 10))[:10]  # a quarter of the epoch
    assert max(place for batch in first for place in batch) < 100


def test_more_tokens_make_fewer_batches():
    lengths = lognormal(2000)
    counts = [len(list(by_tokens(lengths, 8, tokens=tokens))) for tokens in (0, 8192, 32768)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 250
    assert counts[2] < 50
    small = list(by_tokens(lengths, 8, tokens=64))
    assert all(map(np.array_equal, small, by_tokens(lengths, 8)))


def test_a_gain_is_counted_in_positions_of_the_samples_that_are_known():
    known = np.array([4, 4, 4, 12, 12, 12, -1, -1], np.int32)
    found = Gain.of(known, 3, lambda lengths, batch: iter(np.split(np.argsort(lengths), 2)),
                    multiple=8)  # fmt: skip
    assert (found.samples, found.real, found.after) == (6, 48, 3 * 8 + 3 * 16)
    some = shuffled(known)
    assert found.before == padded(some, in_order(some, 3), multiple=8) > found.after
    assert sorted(some) == sorted(known[:6])


def test_widths_are_rounded_up_and_never_0():
    lengths = np.array([0, 1, 8, 9], np.int32)
    assert widths(lengths, 8).tolist() == [8, 8, 8, 16]
    assert widths(lengths, 1).tolist() == [1, 1, 8, 9]
    assert padded(lengths, in_order(lengths, 2), multiple=8) == 2 * 8 + 2 * 16
