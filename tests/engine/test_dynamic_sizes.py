"""Sizes that change from batch to batch are compiled for once."""

from dataclasses import dataclass

import torch
from torch._dynamo.testing import CompileCounter

from hotloop.engine.dynamic_sizes import changing_sizes_marked


@dataclass(frozen=True)
class Layout:
    """What a batch brings along, in an object."""

    starts: torch.Tensor


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, *, layout):
        return self.linear(x) + layout.starts.sum()


def forward(model, tokens, documents):
    layout = Layout(torch.ones(documents))
    return model(torch.ones(2, tokens, 8), layout=layout)


def frames(marks):
    torch._dynamo.reset()
    model, counter = Block(), CompileCounter()
    model.compile(backend=counter)
    passes = [lambda t=t, d=d: forward(model, t, d) for t, d in ((5, 3), (9, 4), (5, 7))]
    with changing_sizes_marked(model, passes if marks else []):
        forward(model, 5, 3)
    assert counter.frame_count == 1, "the passes that look at sizes are not compiled"
    for tokens, documents in ((9, 4), (30, 6), (17, 12)):
        forward(model, tokens, documents)
    torch._dynamo.reset()
    return counter.frame_count


def test_sizes_that_change_are_compiled_for_once():
    assert frames(marks=True) == 1
    assert frames(marks=False) > 1


def test_the_call_is_as_before_afterwards():
    model = Block()
    model.compile(backend="eager")
    call = model._compiled_call_impl
    with changing_sizes_marked(model, [lambda: forward(model, 5, 3)] * 2):
        assert model._compiled_call_impl is not call
    assert model._compiled_call_impl is call


def test_a_compilation_that_failed_stays_undone():
    model = Block()
    model.compile(backend="eager")
    with changing_sizes_marked(model, [lambda: forward(model, 5, 3)] * 2):
        model._compiled_call_impl = None
    assert model._compiled_call_impl is None
