"""What waits for the card, and what does not: known programs, their waits counted by name.

The counts are those of a card where that is known: torch reads a value by one cudaMemcpyAsync and
one cudaStreamSynchronize (`c10::cuda::memcpy_and_sync`), and `nonzero` reads the number of rows.
"""

import pytest

pytestmark = pytest.mark.nullcard

START = """
import torch
x = torch.ones(64, 64, device="cuda")
mask, flat = x > 0, torch.ones(64, device="cuda")
(x @ x).sum()  # cuBLAS is set up
pinned, pageable = torch.ones(1000).pin_memory(), torch.ones(1000)
there = torch.empty(1000, device="cuda")
"""


def waits(on_card, expression: str) -> dict[str, int]:
    script = f"{START}facts['waits'] = dict(counted(lambda: {expression}).waits)"
    return on_card("rtx4090", script).facts["waits"]


@pytest.mark.parametrize(
    "expression",
    [
        "x.sum().item()",
        "float(x.sum())",
        "bool(x.sum() > 0)",
        "x.nonzero()",
        "x[mask]",
        "torch.masked_select(x, mask)",
        "torch.unique(flat)",
        "pageable.cuda()",
        "pinned.cuda()",  # without non_blocking torch waits for this one too
        "torch.tensor([1.0, 2.0], device='cuda')",
        "x.new_tensor([1.0])",
    ],
)
def test_one_wait(on_card, expression):
    assert waits(on_card, expression) == {"cudaStreamSynchronize": 1}


@pytest.mark.parametrize("expression", ["x.cpu()", "x.tolist()"])
def test_one_wait_for_a_copy_to_pageable_memory(on_card, expression):
    """torch synchronises the stream after the copy; by then there is nothing left to wait for."""
    assert waits(on_card, expression) == {"cudaMemcpyAsync to pageable memory": 1}


@pytest.mark.parametrize(
    "expression",
    [
        "x + x @ x",
        "x.sum()",
        "torch.where(mask, x, 0)",
        "x.masked_fill(mask, 0)",
        "torch.nonzero_static(x, size=8)",
        "torch.zeros(8, device='cuda')",
        "pinned.to('cuda', non_blocking=True)",
        "pageable.to('cuda', non_blocking=True)",
        "pinned.copy_(there, non_blocking=True)",
        "torch.cuda.Event().record()",
        "torch.cuda.current_stream().query()",
    ],
)
def test_no_wait(on_card, expression):
    assert waits(on_card, expression) == {}


def test_a_copy_to_pageable_memory_waits_though_it_is_called_non_blocking(on_card):
    """API synchronization behaviour: it may return only when it is complete."""
    found = waits(on_card, "pageable.copy_(there, non_blocking=True)")
    assert found == {"cudaMemcpyAsync to pageable memory": 1}


@pytest.mark.parametrize(
    ("expression", "call"),
    [
        ("torch.cuda.synchronize()", "cudaDeviceSynchronize"),
        ("torch.cuda.current_stream().synchronize()", "cudaStreamSynchronize"),
    ],
)
def test_waits_by_their_names(on_card, expression, call):
    assert waits(on_card, expression) == {call: 1}


def test_an_event_is_waited_for_once(on_card):
    """The second call has nothing to wait for: it is counted apart."""
    script = """
import torch
x = torch.ones(8, device="cuda") + 1
e = torch.cuda.Event()
e.record()
c = counted(lambda: (e.synchronize(), e.synchronize()))
facts |= {"waits": dict(c.waits), "idle": dict(c.idle_waits)}
"""
    facts = on_card("t4", script).facts
    assert facts == {"waits": {"cudaEventSynchronize": 1}, "idle": {"cudaEventSynchronize": 1}}


def test_printing_a_tensor_waits_more_than_once(on_card):
    """It selects what is not zero, then reads row by row. What it selects is nothing here, for no
    kernel writes: on a card the largest and the smallest are read too, so this is a lower bound."""
    assert sum(waits(on_card, "str(x[:3])").values()) >= 1 + 3


def test_copies_are_counted_by_kind_and_bytes(on_card):
    script = f"""{START}
def work():
    pinned.to("cuda", non_blocking=True)
    pageable.to("cuda", non_blocking=True)
    pinned.copy_(there, non_blocking=True)
    there.clone()
facts["copies"] = dict(counted(work).copies)
"""
    copies = on_card("rtx4090", script).facts["copies"]
    assert copies["h2d_pinned"] == copies["h2d_pageable"] == copies["d2h_pinned"] == [1, 4000]
    assert copies["d2d"] == [1, 4000]
    assert copies["d2h_pageable"] == copies["h2h"] == [0, 0]


def test_torch_names_the_line_of_a_hidden_wait(on_card):
    """torch's own debug mode works, since each wait goes through it."""
    script = """
import torch, warnings
x = torch.ones(8, device="cuda")
torch.cuda.set_sync_debug_mode(1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x[x > 0]
facts["said"] = [str(w.message) for w in caught]
"""
    said = on_card("rtx4090", script).facts["said"]
    assert any("called a synchronizing CUDA operation" in text for text in said)
