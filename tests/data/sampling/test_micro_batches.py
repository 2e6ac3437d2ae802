from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.sampling.micro_batches import by_tokens


def rows(lengths, layout="padded", round_to=8):
    """Rows in file order, as far as cutting looks at them."""
    return SimpleNamespace(
        form=SimpleNamespace(layout=layout, round_to=round_to),
        lengths=np.array(lengths, np.int32),
        longest=max(lengths),
        ids=lambda epoch, first, count: np.arange(first, first + count),
    )


def slots(lengths, layout, round_to):
    if layout == "flat":
        return sum(lengths)
    return len(lengths) * -(-max(lengths) // round_to) * round_to


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 70), min_size=1, max_size=60).filter(any),
    micro_batch=st.integers(1, 8),
    layout=st.sampled_from(["padded", "flat"]),
    cut=st.tuples(st.integers(0, 30), st.integers(1, 60)),
)
def test_each_row_comes_once_and_no_micro_batch_is_larger_than_one_of_the_longest(
    lengths, micro_batch, layout, cut
):
    first = min(cut[0], len(lengths) - 1)
    count = min(cut[1], len(lengths) - first)
    spans = by_tokens(rows(lengths, layout), 0, first, count, micro_batch)
    assert [at for begin, n in spans for at in range(begin, begin + n)] == list(
        range(first, first + count)
    )
    assert all(n > 0 for _, n in spans)
    most = slots([max(lengths)] * micro_batch, layout, 8)
    for (begin, n), (after, _) in zip(spans, [*spans[1:], (None, 0)], strict=True):
        assert slots(lengths[begin : begin + n], layout, 8) <= most
        if after is not None:  # one row more would have been too many
            assert slots(lengths[begin : begin + n + 1], layout, 8) > most


def test_short_rows_share_what_two_long_ones_take():
    lengths = [16, 16, *[4] * 8]
    assert by_tokens(rows(lengths), 0, 0, 10, 2) == [(0, 2), (2, 4), (6, 4)]
    assert by_tokens(rows(lengths, "flat"), 0, 0, 10, 2) == [(0, 2), (2, 8)]
