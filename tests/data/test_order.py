import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.order import offset, permutation

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
