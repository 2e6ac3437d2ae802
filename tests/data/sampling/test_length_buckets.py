from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.length_buckets import BUDGET, bucketed, by_budget, by_count
from hotloop.data.sampling.padded_widths import padded

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=120).map(np.array)
SEEDS = st.integers(min_value=-(2**70), max_value=2**70)
EPOCHS = st.integers(0, 1000)


def lognormal(n: int, sigma: float = 1.0) -> np.ndarray:
    """Lengths as in the comparison with others: mean 180, at most 2048."""
    drawn = np.random.default_rng(0).lognormal(np.log(180) - sigma**2 / 2, sigma, n)
    return np.clip(np.rint(drawn), 1, 2048).astype(np.int64)


def listed(batches) -> list[list[int]]:
    return [batches.order[a:b].tolist() for a, b in pairwise(batches.starts)]


def check_widths(batches, lengths, round_to):
    longest = np.array([lengths[batch].max() for batch in listed(batches)])
    assert batches.widths.tolist() == padded(longest, round_to).tolist()


@given(lengths=LENGTHS, batch=st.integers(1, 30))
def test_batches_by_count_take_samples_as_they_come(lengths, batch):
    n = len(lengths)
    expected = [list(range(n))[first : first + batch] for first in range(0, n, batch)]
    batches = by_count(lengths, batch, order=np.arange(n), round_to=4)
    assert listed(batches) == expected
    check_widths(batches, lengths, 4)


def test_batches_by_count_follow_an_order():
    batches = by_count(np.array([3, 9, 1]), 2, order=np.array([2, 0, 1]), round_to=1)
    assert listed(batches) == [[2, 0], [1]]
    assert batches.widths.tolist() == [3, 9]


@given(
    lengths=LENGTHS,
    batch=st.integers(1, 30),
    seed=SEEDS,
    epoch=EPOCHS,
    mega=st.integers(1, 5),
)
def test_bucketed_batches_take_each_sample_once(lengths, batch, seed, epoch, mega):
    n = len(lengths)
    rest = permutation(seed, epoch, n)[n - n % batch :].tolist()
    batches = bucketed(lengths, batch, seed=seed, epoch=epoch, mega=mega)
    met = batches.order.tolist()
    assert batches.starts.tolist() == [*range(0, len(met), batch), len(met)]
    assert sorted(met) == list(range(n))
    assert met[n - n % batch :] == rest  # what fills no batch was drawn before sorting
    check_widths(batches, lengths, 8)


@given(
    lengths=LENGTHS,
    budget=st.integers(64, 600),
    seed=SEEDS,
    epoch=EPOCHS,
    mega=st.integers(1, 5),
    round_to=st.integers(1, 8),
)
def test_batches_by_budget_take_each_sample_once_and_keep_the_budget(
    lengths, budget, seed, epoch, mega, round_to
):
    batches = by_budget(lengths, budget, seed=seed, epoch=epoch, mega=mega, round_to=round_to)
    assert sorted(batches.order.tolist()) == list(range(len(lengths)))
    assert (batches.rows > 0).all()
    assert (batches.rows * batches.widths <= budget).all()
    full = (batches.rows + 1) * batches.widths > budget
    assert full[:-1].all(), "all batches but the last one are full"
    check_widths(batches, lengths, round_to)


@pytest.mark.parametrize("sigma", [0.8, 1.0, 1.2])
def test_the_defaults_leave_at_most_4_7_percent_of_padding(sigma):
    lengths = lognormal(60_000, sigma)
    batches = by_budget(lengths, seed=1, epoch=0)
    assert batches.padding(lengths) <= 0.047
    tokens = np.add.reduceat(lengths[batches.order], batches.starts[:-1])[:-1]
    assert tokens.mean() > 0.9 * BUDGET


def test_padding_is_the_share_of_slots_without_a_token():
    lengths = np.array([3, 5, 2, 8], dtype=np.uint8)
    order = np.arange(4)
    assert by_count(lengths, 2, order=order, round_to=1).padding(lengths) == 1 - 18 / (10 + 16)
    assert by_count(lengths, 2, order=order, round_to=8).padding(lengths) == 1 - 18 / 32
    assert by_count(lengths, 3, order=order[:3], round_to=1).padding(lengths) == 1 - 10 / 15


MAKERS = [
    lambda lengths, seed, epoch: bucketed(lengths, 16, seed=seed, epoch=epoch),
    lambda lengths, seed, epoch: by_budget(lengths, 4096, seed=seed, epoch=epoch),
]


@pytest.mark.parametrize("make", MAKERS)
def test_seed_and_epoch_alone_decide(make):
    lengths = lognormal(2000)
    first = make(lengths, 3, 5)
    again, other_epoch, other_seed = (make(lengths, *at) for at in ((3, 5), (3, 6), (4, 5)))
    assert listed(first) == listed(again)
    together = {frozenset(batch) for batch in listed(first)}
    for other in (other_epoch, other_seed):
        assert len(together & {frozenset(batch) for batch in listed(other)}) < len(first) / 10


@pytest.mark.parametrize("make", MAKERS)
def test_batches_of_all_widths_come_in_mixed_order(make):
    batches = make(lognormal(20_000), 3, 0)
    place = np.arange(len(batches))
    # 4 standard deviations of the correlation of unrelated numbers
    assert abs(np.corrcoef(place, batches.widths)[0, 1]) < 4 / len(batches) ** 0.5


def test_a_small_data_set_is_not_sorted_as_a_whole():
    lengths = np.arange(1, 401)
    batches = bucketed(lengths, 10, seed=1, epoch=0, round_to=1)
    spans = [lengths[batch].max() - lengths[batch].min() for batch in listed(batches)]
    assert np.mean(spans) > 20, "a tenth of a quarter of 400 lengths spans about 40"


def test_golden_batches_never_change():
    lengths = np.array([3, 17, 9, 5, 30, 2, 11, 25, 8, 14, 6, 21, 1, 19, 12, 27])
    pairs = [[3, 8], [4, 11], [7, 1], [15, 13], [2, 6], [9, 0], [14, 5], [12, 10]]
    of_budget = [[15], [11, 14], [7], [13, 2], [4], [9, 0, 3], [6, 10, 8], [1, 12], [5]]
    assert listed(bucketed(lengths, 2, seed=1337, epoch=1, mega=2)) == pairs
    assert listed(by_budget(lengths, 48, seed=1337, epoch=1, mega=2)) == of_budget


def test_a_sample_wider_than_the_budget_is_named():
    said = (
        "sample 1 has 61 tokens and is 64 wide when padded, but a batch holds 63 tokens at most; "
        "raise the budget, or cut or leave out longer samples"
    )
    with pytest.raises(DataError, match=said):
        by_budget(np.array([5, 61, 7]), 63, seed=0, epoch=0)
    assert len(by_budget(np.array([5, 61, 7]), 64, seed=0, epoch=0)) == 2


@pytest.mark.parametrize(
    "make", [*MAKERS, lambda n, seed, epoch: by_count(n, 4, order=np.arange(len(n)))]
)
def test_empty_samples_and_empty_data_are_refused(make):
    with pytest.raises(DataError, match="sample 2 has 0 tokens"):
        make(np.array([4, 1, 0]), 0, 0)
    with pytest.raises(DataError, match="expected samples, got none"):
        make(np.array([], dtype=np.int64), 0, 0)
