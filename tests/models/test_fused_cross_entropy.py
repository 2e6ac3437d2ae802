"""The fused loss and its gradients are those of the written-out formula, in every form of it."""

import pytest
import torch
from torch.nn import functional

from hotloop.models.fused_cross_entropy import LossTerms, linear_cross_entropy

N, D, V = 23, 12, 40
FORMS = (
    LossTerms(),
    LossTerms(softcap=2.0),
    LossTerms(label_smoothing=0.1),
    LossTerms(z_loss=0.02),
    LossTerms(softcap=3.0, label_smoothing=0.3, z_loss=0.1),
)


def drawn(dtype=torch.float64, *, bias=True):
    torch.manual_seed(0)
    hidden = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    offset = torch.randn(V, dtype=dtype, requires_grad=True) if bias else None
    labels = torch.randint(V, (N,))
    labels[::5] = -100
    return hidden, weight, offset, labels


def written_out(hidden, weight, offset, labels, terms):
    logits = functional.linear(hidden, weight, offset)
    if terms.softcap:
        logits = terms.softcap * torch.tanh(logits / terms.softcap)
    smoothing = {"label_smoothing": terms.label_smoothing}
    loss = functional.cross_entropy(logits, labels, reduction="sum", **smoothing)
    return loss + terms.z_loss * logits.logsumexp(-1)[labels != -100].square().sum()


@pytest.mark.parametrize("terms", FORMS, ids=str)
@pytest.mark.parametrize("rows", [1, 7, N, 1000])
@pytest.mark.parametrize("bias", [True, False])
def test_loss_and_gradients_are_those_of_the_formula(terms, rows, bias):
    values = drawn(bias=bias)
    wanted = [value for value in values[:3] if value is not None]
    expected = written_out(*values, terms)
    exact = torch.autograd.grad(expected, wanted)
    hidden, weight, offset, labels = values
    found = linear_cross_entropy(hidden, weight, labels, bias_V=offset, terms=terms, rows=rows)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)
    for one, other in zip(torch.autograd.grad(found / 7, wanted), exact, strict=True):
        torch.testing.assert_close(one, other / 7, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_it_is_the_loss_of_all_logits(dtype):
    """Bit for bit with one part: the same products of the same rounded numbers."""
    hidden, weight, _, labels = drawn(torch.float32, bias=False)
    with torch.autocast("cpu", dtype):
        logits = functional.linear(hidden, weight).float()
        expected = functional.cross_entropy(logits, labels, reduction="sum", ignore_index=-100)
        found = linear_cross_entropy(hidden, weight, labels, rows=N)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    wanted = torch.autograd.grad(expected, (hidden, weight))
    for one, other in zip(torch.autograd.grad(found, (hidden, weight)), wanted, strict=True):
        assert (one - other).norm() <= 1e-3 * other.norm()


def test_in_float16_the_many_unlikely_words_are_not_lost():
    """Of 50,000 words each has a probability near 2e-5, where float16 has steps of 6e-8."""
    torch.manual_seed(0)
    hidden, weight = ((torch.randn(n, 32) * 0.1).half().float() for n in (8, 50_000))
    hidden.requires_grad_(), weight.requires_grad_()
    labels = torch.randint(50_000, (8,))
    logits = functional.linear(hidden, weight).double()
    expected = functional.cross_entropy(logits, labels, reduction="sum")
    with torch.autocast("cpu", torch.float16):
        found = linear_cross_entropy(hidden, weight, labels, rows=3)
    leaves, unlikely = (hidden, weight), torch.ones(50_000, dtype=torch.bool)
    unlikely[labels] = False
    (one, of_words), (other, exact) = (torch.autograd.grad(x, leaves) for x in (found, expected))
    assert (one - other).norm() <= 1e-3 * other.norm()
    assert (of_words - exact)[unlikely].norm() <= 1e-3 * exact[unlikely].norm()


def test_a_head_that_is_frozen_in_16_bits_gets_no_gradient():
    hidden, weight, _, labels = drawn(torch.float32, bias=False)
    low = weight.detach().bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        one = linear_cross_entropy(hidden, low, labels, rows=4)
        other = linear_cross_entropy(hidden, weight, labels, rows=4)
    assert torch.equal(one, other)
    (gradient,) = torch.autograd.grad(one, hidden)
    assert torch.equal(gradient, torch.autograd.grad(other, hidden)[0])


@pytest.mark.parametrize("terms", FORMS, ids=str)
def test_each_loss_may_count_differently_where_the_head_is_frozen(terms):
    hidden, weight, _, labels = drawn(bias=False)
    frozen, counts = weight.detach(), torch.linspace(-1, 2, N, dtype=torch.float64)
    one_by_one = [
        written_out(hidden[at : at + 1], frozen, None, labels[at : at + 1], terms)
        if labels[at] != -100
        else hidden.new_zeros(())
        for at in range(N)
    ]
    expected = torch.stack(one_by_one)
    found = linear_cross_entropy(hidden, frozen, labels, terms=terms, rows=5, reduction="none")
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    (exact,) = torch.autograd.grad((expected * counts).sum(), hidden)
    (gradient,) = torch.autograd.grad((found * counts).sum(), hidden)
    torch.testing.assert_close(gradient, exact, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="the head is trained"):
        linear_cross_entropy(hidden, weight, labels, rows=5, reduction="none")
    with torch.no_grad():
        again = linear_cross_entropy(hidden, weight, labels, terms=terms, rows=N, reduction="none")
    torch.testing.assert_close(again, found.detach())


def test_without_gradients_none_are_made():
    hidden, weight, _, labels = drawn(torch.float32, bias=False)
    with torch.no_grad():
        found = linear_cross_entropy(hidden, weight, labels, rows=4)
    assert not found.requires_grad
    torch.testing.assert_close(found, linear_cross_entropy(hidden, weight, labels, rows=9))


def test_no_label_at_all_is_no_loss():
    hidden, weight, _, labels = drawn(torch.float32, bias=False)
    found = linear_cross_entropy(hidden, weight, labels.fill_(-100), rows=4)
    assert found.item() == 0
    assert not any(g.any() for g in torch.autograd.grad(found, (hidden, weight)))
    none = linear_cross_entropy(hidden[:0], weight, labels[:0], rows=4)
    assert none.item() == 0


def test_a_second_backward_pass_is_refused():
    """The gradients were multiplied in place, so they would be wrong without a word."""
    hidden, weight, _, labels = drawn(torch.float32, bias=False)
    loss = linear_cross_entropy(hidden, weight, labels, rows=4)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="for one backward pass"):
        loss.backward()
