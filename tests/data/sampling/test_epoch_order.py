import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.sampling.epoch_order import evenly, offset, permutation, uniform

SEEDS = st.integers(min_value=-(2**70), max_value=2**70)
EPOCHS = st.integers(min_value=0, max_value=10**6)
MASK = 2**64 - 1


def splitmix64(state: int, index: int) -> int:
    """Output `index` of https://prng.di.unimi.it/splitmix64.c, written out in Python integers."""
    z = (state + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key(seed: int, epoch: int, purpose: int) -> int:
    return splitmix64(splitmix64(splitmix64(seed, 0), epoch), purpose)


def test_the_reference_of_this_file_gives_the_published_outputs():
    # https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64, seed 1234567
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [splitmix64(1234567, i) for i in range(3)] == published


@pytest.mark.parametrize(
    ("seed", "epoch", "golden"),
    [
        (0, 0, [1, 9, 0, 8, 4, 6, 7, 10, 2, 3, 5, 11]),
        (1337, 0, [9, 1, 8, 0, 2, 6, 4, 11, 5, 7, 3, 10]),
        (1337, 1, [1, 7, 10, 9, 0, 3, 8, 2, 6, 4, 11, 5]),
        (-1, 7, [3, 6, 0, 11, 5, 9, 4, 1, 10, 8, 7, 2]),
    ],
)
def test_golden_orders_never_change(seed, epoch, golden):
    assert permutation(seed, epoch, 12).tolist() == golden


def test_golden_offsets_never_change():
    assert [offset(1337, epoch, 1000) for epoch in range(6)] == [555, 272, 352, 545, 75, 186]


@given(seed=SEEDS, epoch=EPOCHS, n=st.integers(0, 200))
@settings(max_examples=100)
def test_order_is_that_of_the_reference(seed, epoch, n):
    stream = key(seed, epoch, 0)
    expected = sorted(range(n), key=lambda index: splitmix64(stream, index))
    order = permutation(seed, epoch, n)
    assert order.dtype == np.int64
    assert order.tolist() == expected
    assert sorted(expected) == list(range(n))


@given(seed=SEEDS, epoch=EPOCHS, below=st.integers(1, 2**62))
@settings(max_examples=100)
def test_offset_is_that_of_the_reference_and_in_range(seed, epoch, below):
    got = offset(seed, epoch, below)
    assert 0 <= got < below
    assert got == splitmix64(key(seed, epoch, 1), 0) * below // 2**64


def test_every_place_is_equally_likely():
    n, epochs = 8, 4000
    counts = np.zeros((n, n))
    for epoch in range(epochs):
        counts[np.arange(n), permutation(3, epoch, n)] += 1
    chi_square = ((counts - epochs / n) ** 2 / (epochs / n)).sum()
    # (n-1)^2 = 49 degrees of freedom: mean 49, standard deviation sqrt(98); 4 of them are allowed
    assert abs(chi_square - 49) < 4 * 98**0.5


def test_offsets_are_spread_evenly():
    counts = np.bincount([offset(5, epoch, 10) for epoch in range(5000)], minlength=10)
    chi_square = ((counts - 500) ** 2 / 500).sum()
    assert chi_square < 9 + 4 * 18**0.5  # 9 degrees of freedom


def test_neighbouring_seeds_and_epochs_share_no_order():
    orders = {tuple(permutation(seed, epoch, 20)) for seed in range(30) for epoch in range(30)}
    assert len(orders) == 900


def test_golden_numbers_in_the_unit_interval_never_change():
    even, drawn = evenly(1337, 2, 5, 4) * 2**53, uniform(1337, 2, 5, 4) * 2**53
    assert even.astype(int).tolist() == [
        4427908751680903,
        987464779812567,
        6554220062685222,
        3113776090816886,
    ]
    assert drawn.astype(int).tolist() == [
        2058589977490889,
        6935192529003112,
        4659077182021725,
        8435546425294824,
    ]


@pytest.mark.parametrize("numbers", [evenly, uniform])
@given(seed=SEEDS, epoch=EPOCHS, first=st.integers(0, 10**12), count=st.integers(0, 50))
@settings(max_examples=100)
def test_any_cut_of_a_sequence_gives_the_same_numbers(numbers, seed, epoch, first, count):
    whole = numbers(seed, epoch, first, count)
    assert whole.dtype == np.float64
    assert ((whole >= 0) & (whole < 1)).all()
    assert [numbers(seed, epoch, first + i, 1)[0] for i in range(count)] == whole.tolist()


@given(seed=SEEDS, epoch=EPOCHS, first=st.integers(0, 10**9), count=st.integers(1, 400))
@settings(max_examples=100)
def test_every_run_of_the_even_sequence_fills_the_interval(seed, epoch, first, count):
    places = np.sort(evenly(seed, epoch, first, count))
    gaps = np.diff(np.concatenate((places, places[:1] + 1)))
    # Swierczkowski 1958: gaps of a golden sequence are one of two or three lengths, all near 1/n.
    assert gaps.max() < 2.62 / count


def test_uniform_numbers_are_spread_evenly_and_unrelated_to_their_neighbours():
    drawn = uniform(3, 0, 0, 100_000)
    counts = np.bincount((drawn * 20).astype(int), minlength=20)
    assert ((counts - 5000) ** 2 / 5000).sum() < 19 + 4 * 38**0.5  # 19 degrees of freedom
    for other in (uniform(3, 0, 1, 100_000), uniform(3, 1, 0, 100_000), uniform(4, 0, 0, 100_000)):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 4 / 100_000**0.5
