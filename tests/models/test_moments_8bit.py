"""Averages in 8 bits: right on average, never off by more than one code, and 0 only for 0."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.models.moments_8bit import (
    BLOCK,
    decoded,
    decoded_squares,
    encoded,
    encoded_squares,
    in_bfloat16,
)

DRAWS = 4000


def numbers(scale):
    """Return a block of numbers of many magnitudes, with zeros."""
    torch.manual_seed(0)
    values = torch.randn(1, BLOCK) * 10 ** (-4 * torch.rand(1, BLOCK))
    values[0, :3] = 0.0
    return values * scale


def drawn(encode, decode, values):
    """Return what many encodings of one block become, [draws, 256]."""
    many = values.expand(DRAWS, BLOCK).contiguous()
    chance = torch.rand(DRAWS, BLOCK, generator=torch.Generator().manual_seed(1))
    return decode(*encode(many, chance))


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e4])
@pytest.mark.parametrize("kind", ["average", "square"])
def test_on_average_nothing_is_lost(kind, scale):
    values = numbers(scale)
    if kind == "square":
        values = values.square()
        seen = drawn(encoded_squares, decoded_squares, values)
        kept = values[0] > values.max() / 255**4  # below, 0 would be the nearer one
    else:
        seen, kept = drawn(encoded, decoded, values), values[0].abs() >= 0
    error = (seen.mean(0) - values[0]).abs()[kept]
    spread = seen.std(0)[kept] / DRAWS**0.5
    assert bool((error <= 5 * spread + 1e-5 * values[0].abs()[kept]).all())


# Squares of what is smaller are no normal numbers, and AdamW adds 1e-8 to their root.
NUMBER = st.floats(-1e6, 1e6, width=32).map(lambda x: x if abs(x) > 1e-12 else 0.0)


@given(st.lists(NUMBER, min_size=BLOCK, max_size=BLOCK), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_code_is_one_of_the_two_beside_the_number(values, seed):
    block = torch.tensor([values])
    chance = torch.rand(1, BLOCK, generator=torch.Generator().manual_seed(seed))
    low, high = (decoded(*encoded(block, torch.full_like(chance, c))) for c in (1.0, 0.0))
    seen = decoded(*encoded(block, chance))
    assert bool(((seen == low) | (seen == high)).all())
    assert bool((low.abs() <= block.abs() * (1 + 1e-5)).all())
    assert bool((high.abs() >= block.abs() * (1 - 1e-5)).all())
    squares = block.square()
    again = decoded_squares(*encoded_squares(squares, chance))
    assert bool(((again > 0) == (squares > 0)).all())


def test_a_block_of_zeros_stays_zero():
    zeros, chance = torch.zeros(2, BLOCK), torch.rand(2, BLOCK)
    assert bool((decoded(*encoded(zeros, chance)) == 0).all())
    assert bool((decoded_squares(*encoded_squares(zeros, chance)) == 0).all())


def test_a_quotient_above_1_does_not_become_a_negative_number():
    """As an inexact division of a GPU makes it: one step of float32 above 1."""
    block = torch.zeros(1, BLOCK)
    block[0, 0] = torch.tensor(0.5)
    above = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    original = torch.Tensor.__truediv__
    torch.Tensor.__truediv__ = lambda self, other: original(self, other) * above
    try:
        codes, scale = encoded(block, torch.zeros(1, BLOCK))
    finally:
        torch.Tensor.__truediv__ = original
    assert codes[0, 0] == 127
    assert decoded(codes, scale)[0, 0] == 0.5


def test_no_weight_that_is_not_finite_becomes_a_number():
    bad = torch.tensor([torch.nan, torch.inf, -torch.inf])
    bad[0] = torch.tensor(0x7FFFFFFF, dtype=torch.int32).view(torch.float32)  # a GPU's NaN
    seen = in_bfloat16(bad, torch.full((3,), 65_535, dtype=torch.int32))
    assert seen.isnan().tolist() == [True, False, False]
    assert seen.isinf().tolist() == [False, True, True]


def test_a_weight_becomes_one_of_its_neighbours_and_is_right_on_average():
    torch.manual_seed(0)
    value = torch.randn(BLOCK)
    chance = torch.randint(0, 1 << 16, (DRAWS, BLOCK), dtype=torch.int32)
    seen = in_bfloat16(value.expand(DRAWS, BLOCK).contiguous(), chance).float()
    assert bool(((seen - value).abs() < value.abs() * 2.0**-7).all())
    assert bool(((seen.mean(0) - value).abs() <= 5 * seen.std(0) / DRAWS**0.5 + 1e-7).all())
    exact = value.bfloat16().float()
    again = in_bfloat16(exact.expand(DRAWS, BLOCK).contiguous(), chance)
    assert torch.equal(again.float(), exact.expand(DRAWS, BLOCK))
