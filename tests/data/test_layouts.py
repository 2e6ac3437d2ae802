"""How much padding batches would have, counted once more by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.data.layouts import padding_share


def test_rows_of_like_length_have_less():
    lengths = np.array([8, 64, 8, 64], np.int32)
    assert padding_share(lengths, 2, is_alike=True, round_to=8) == 0
    assert padding_share(lengths, 2, is_alike=False, round_to=8) == pytest.approx(1 - 144 / 256)
    assert padding_share(np.array([5]), 4, is_alike=True, round_to=8) == pytest.approx(3 / 8)


@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=60),
    size=st.integers(1, 9),
    round_to=st.sampled_from([1, 8, 64]),
    is_alike=st.booleans(),
)
def test_it_is_the_share_of_slots_without_a_token(lengths, size, round_to, is_alike):
    order = sorted(lengths) if is_alike else lengths
    slots = 0
    for first in range(0, len(order), size):
        batch = order[first : first + size]
        slots += len(batch) * (max(batch) + -max(batch) % round_to)
    found = padding_share(np.array(lengths), size, is_alike=is_alike, round_to=round_to)
    assert found == pytest.approx(1 - sum(lengths) / slots)
    assert 0 <= found < 1
