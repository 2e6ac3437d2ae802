import torch
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.document_boundaries import Boundaries, bucket


@given(count=st.integers(1, 1 << 40))
def test_a_bucket_is_the_next_power_of_two(count):
    found = bucket(count)
    assert isinstance(found, int)
    assert count <= found < 2 * count
    assert found & (found - 1) == 0


def test_boundaries_move_with_the_batch_and_keep_what_the_host_knows():
    one = Boundaries(
        cu_seqlens=torch.tensor([0, 3, 4], dtype=torch.int32),
        lengths=(3, 1),
        max_seqlen=4,
        rows=1,
        width=4,
    )
    moved = one.to(torch.device("meta"))
    assert moved.cu_seqlens.device.type == "meta"
    assert (moved.lengths, moved.max_seqlen, moved.rows, moved.width) == ((3, 1), 4, 1, 4)
    assert one.cu_seqlens.device.type == "cpu"
