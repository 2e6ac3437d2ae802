import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.sampling.padded_widths import padded

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=30)


@given(lengths=LENGTHS, multiple=st.integers(1, 16))
def test_a_length_goes_up_to_the_next_multiple(lengths, multiple):
    got = padded(np.array(lengths), multiple).tolist()
    assert got == [min(w for w in range(0, 99, multiple) if w >= one) for one in lengths]
    assert got == padded(np.array(lengths, dtype=np.uint8), np.int64(multiple)).tolist()


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([], "expected samples, got none; check the files"),
        ([2, 0, 3], "sample 1 has 0 tokens, but 1 or more are needed"),
    ],
)
def test_lengths_that_no_batch_can_hold_are_refused(lengths, said):
    with pytest.raises(DataError, match=said):
        padded(np.array(lengths, dtype=np.int64), 4)
