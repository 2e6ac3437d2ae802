"""torch's own allocator on a card of a stated size: reuse, out of memory, pinned memory."""

import pytest

pytestmark = pytest.mark.nullcard
MIB = 1 << 20


def test_a_freed_block_is_used_again(on_card):
    script = """
import torch
MIB = 1 << 20
x = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
first = x.data_ptr()
del x
def again():
    facts["same"] = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda").data_ptr() == first
c = counted(again)
facts |= {"mallocs": c.memory["mallocs"], "reserved": c.memory["reserved"]}
facts["torch"] = torch.cuda.memory_reserved()
"""
    facts = on_card("rtx4090", script).facts
    assert facts["same"]
    assert facts["mallocs"] == 0
    assert facts["reserved"] == facts["torch"] == 30 * MIB


def test_memory_ends_at_the_limit_and_is_there_again_after_empty_cache(on_card):
    script = """
import torch
MIB = 1 << 20
def take(mib): return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
kept = take(600)
try:
    take(600)
except torch.OutOfMemoryError as error:
    facts["error"] = str(error)
facts["refused"] = counts().memory["refused"]
del kept
torch.cuda.empty_cache()
facts["after"] = counts().memory["reserved"]
facts["taken"] = take(600).numel()
torch.ones(1, device="cuda")  # the error was not sticky
facts["peak"] = counts().memory["peak"]
"""
    facts = on_card("t4", script, memory=1000).facts
    assert "CUDA out of memory. Tried to allocate 600.00 MiB" in facts["error"]
    assert "GPU 0 has a total capacity of 1000.00 MiB of which 400.00 MiB is free" in facts["error"]
    assert facts["refused"] >= 1
    assert facts["after"] == 0
    assert facts["taken"] == 600 * MIB
    assert 600 * MIB < facts["peak"] <= 1000 * MIB


def test_cached_blocks_are_given_back_before_memory_ends(on_card):
    """The allocator frees its cache and asks again: cudaMalloc is refused, the program goes on."""
    script = """
import torch
MIB = 1 << 20
def take(mib): return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
del (cached := {0: take(600)})[0]
take(700)
facts["retries"] = torch.cuda.memory_stats()["num_alloc_retries"]
facts["memory"] = dict(counts().memory)
"""
    facts = on_card("t4", script, memory=1000).facts
    assert facts["retries"] == 1
    assert facts["memory"]["refused"] == 1
    assert facts["memory"]["reserved"] == 700 * MIB


def test_expandable_segments_grow_in_place(on_card):
    script = """
import torch
torch.cuda.memory._set_allocator_settings("expandable_segments:True")
MIB = 1 << 20
def take(mib): return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
small = take(100)
del small
large = take(150)
facts["reserved"] = counts().memory["reserved"]
large.fill_(1)
try:
    take(100)
except torch.OutOfMemoryError:
    facts["full"] = True
"""
    ran = on_card("rtx3060", script, memory=200)
    assert ran.facts["full"]
    assert ran.facts["reserved"] <= 160 * MIB  # not 100 and 150: the segment has grown


def test_pinned_memory_is_counted_and_known(on_card):
    script = """
import torch
x = torch.empty(1 << 20, dtype=torch.uint8)
facts["before"] = x.is_pinned()
y = x.pin_memory()
facts |= {"after": y.is_pinned(), "pinned": counts().memory["pinned"]}
"""
    facts = on_card("rtx3060", script).facts
    assert (facts["before"], facts["after"]) == (False, True)
    assert facts["pinned"] >= MIB


def test_values_go_to_the_card_and_come_back(on_card):
    script = """
import torch
x = torch.arange(1000.0)
facts["same"] = torch.equal(x.cuda().cpu(), x)
facts["copied_there"] = torch.equal(x.cuda().clone().cpu(), x)
"""
    facts = on_card("h100", script).facts
    assert facts["same"]
    assert facts["copied_there"]  # cudaMemcpyAsync, no kernel
