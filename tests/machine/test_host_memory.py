"""Memory of the host for a GPU's copies: many tensors in few parts, and pinned where it can be."""

import pytest
import torch

from hotloop.machine import host_memory
from hotloop.machine.host_memory import HostArena


@pytest.mark.skipif(torch.cuda.is_available(), reason="memory can be pinned here")
def test_a_save_goes_on_where_no_memory_can_be_pinned():
    with pytest.raises(RuntimeError):
        torch.empty(8, dtype=torch.uint8, pin_memory=True)
    assert len(host_memory.host_memory(8)) == 8


def test_tensors_share_few_parts_and_never_overlap(monkeypatch):
    parts = []

    def counted(size):
        parts.append(size)
        return torch.empty(size, dtype=torch.uint8)

    monkeypatch.setattr(host_memory, "host_memory", counted)
    monkeypatch.setattr(host_memory, "_ARENA_BYTES", 1024)
    sizes = [10, 64, 300, 700, 5000, 1, 0]
    arena = HostArena(sizes)
    taken = [arena.take(size).fill_(number) for number, size in enumerate(sizes)]
    assert [len(tensor) for tensor in taken] == sizes
    for number, tensor in enumerate(taken):
        assert bool((tensor == number).all())
    assert parts == [1024, 1024, 5056, 64]  # multiples of 64, to which numbers are aligned
