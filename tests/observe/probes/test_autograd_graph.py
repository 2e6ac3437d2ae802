"""What autograd's graph of a forward pass says."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from hotloop.observe.probes.autograd_graph import Graph, reaches


@pytest.fixture
def q():
    return torch.randn(2, 2, 6, 8, requires_grad=True)


def kinds(output):
    return [(a.kind, a.kernel, a.calls) for a in Graph([output]).attention()]


@pytest.mark.parametrize(
    ("backend", "kernel"), [(SDPBackend.FLASH_ATTENTION, "flash"), (SDPBackend.MATH, "math")]
)
def test_the_kernel_of_sdpa_is_named(q, backend, kernel):
    with sdpa_kernel(backend):
        output = functional.scaled_dot_product_attention(q, q, q)
    assert kinds(output) == [("sdpa", kernel, 1.0)]


def test_the_reason_for_the_math_form_is_told(q):
    output = functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    [attention] = Graph([output]).attention(0.5)
    assert attention.why_math == "the CPU has no fused kernel with dropout"


@pytest.mark.parametrize(
    "attend",
    [
        lambda q: (q @ q.transpose(-1, -2) / 2).softmax(-1) @ q,
        lambda q: functional.dropout((q @ q.transpose(-1, -2)).softmax(-1).float(), 0.5) @ q,
        lambda q: torch.einsum(
            "bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, q).softmax(-1), q
        ),
        lambda q: nn.MultiheadAttention(8, 2)(q[0], q[0], q[0])[0],
    ],
)
def test_attention_that_is_written_out_is_eager(q, attend):
    assert kinds(attend(q)) == [("eager", None, 1.0)]


def test_a_softmax_at_the_end_is_no_attention(q):
    assert kinds((q @ q.transpose(-1, -2)).softmax(-1)) == []


def test_a_graph_reaches_the_parameters_it_was_made_of():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    output = second(torch.randn(2, 4, requires_grad=True))
    assert reaches(output.grad_fn, {id(second.weight)})
    assert not reaches(output.grad_fn, {id(first.weight)})
