"""Pooling against a loop over rows, of padded and of flat batches, with gradients."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.tiny_models import packed, padded

from hotloop.core.errors import ConfigError
from hotloop.models.pooling import KINDS, Pooling

D = 5
every_kind = pytest.mark.parametrize("kind", KINDS)
lengths_of_texts = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def naive(pooling, text):
    """Return the vector of one text, [D]."""
    length, k = len(text), pooling.tokens
    if pooling.kind == "mean":
        return sum(text) / length
    if pooling.kind == "max":
        return torch.stack([max(column) for column in text.T])
    if pooling.kind == "attention":
        powers = [(token @ pooling.scores.double()).exp() for token in text]
        return sum(p * token for p, token in zip(powers, text, strict=True)) / sum(powers)
    taken = {"cls": text[:1], "first-k": text[:k], "last-k": text[-k:]}[pooling.kind]
    return sum(taken) / len(taken)


def made(kind, tokens=1):
    pooling = Pooling(kind, width=D, tokens=tokens)
    if pooling.scores is not None:
        torch.nn.init.normal_(pooling.scores)
    return pooling


def batches(lengths):
    """Return a padded and a flat batch, and for each where the tokens of the texts stand in it."""
    texts = [torch.ones(length, dtype=torch.int64) for length in lengths]
    wide, flat = padded(texts, to=max(lengths) + 2), packed(texts)
    starts = torch.tensor([0, *lengths]).cumsum(0)
    return [
        (wide, lambda h: [row[:n] for row, n in zip(h, lengths, strict=True)]),
        (flat, lambda h: [h[0, a:b] for a, b in pairwise(starts)]),
    ]


@every_kind
@settings(max_examples=20, deadline=None)
@given(lengths=lengths_of_texts, tokens=st.integers(1, 5))
def test_it_is_that_of_a_loop(kind, lengths, tokens):
    pooling = made(kind, tokens)
    for batch, texts in batches(lengths):
        hidden = torch.randn(*batch["input_ids"].shape, D, requires_grad=True)
        out = pooling(hidden, batch)
        expected = [naive(pooling, text.double()) for text in texts(hidden)]
        assert out.dtype == torch.float32
        torch.testing.assert_close(out, torch.stack(expected).float(), rtol=1e-5, atol=1e-6)
        weights = torch.randn(len(lengths), D)
        inputs = [hidden, *pooling.parameters()]
        found = torch.autograd.grad((out * weights).sum(), inputs)
        wanted = torch.autograd.grad((torch.stack(expected) * weights).sum(), inputs)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@every_kind
def test_padding_and_other_texts_do_not_matter(kind):
    pooling, lengths = made(kind, 2), [3, 1, 6]
    for batch, texts in batches(lengths):
        hidden = torch.randn(*batch["input_ids"].shape, D, requires_grad=True)
        changed = hidden.detach().clone() * 1e6
        with torch.no_grad():
            texts(changed)[1].copy_(texts(hidden)[1])
        one, other = pooling(hidden, batch)[1], pooling(changed, batch)[1]
        assert torch.equal(one, other)
        grad = torch.autograd.grad(one.sum(), hidden)[0]
        inside = sum(int(torch.count_nonzero(text)) for text in [texts(grad)[1]])
        assert torch.count_nonzero(grad) == inside > 0


@every_kind
def test_a_batch_without_a_mask_is_all_tokens(kind):
    hidden, pooling = torch.randn(2, 4, D), made(kind, 2)
    ids, mask = torch.ones(2, 4), torch.ones(2, 4, dtype=torch.bool)
    with_mask = pooling(hidden, {"input_ids": ids, "attention_mask": mask})
    assert torch.equal(pooling(hidden, {"input_ids": ids}), with_mask)


@every_kind
def test_sums_are_in_float32_also_under_autocast(kind):
    pooling, length = made(kind, 300), 600
    text = torch.ones(length, dtype=torch.int64)
    hidden = torch.full((1, length, D), 1.001).bfloat16()
    exact = float(hidden[0, 0, 0])
    for batch in (padded([text]), packed([text])):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = pooling(hidden, batch)
        assert out.dtype == torch.float32
        torch.testing.assert_close(out, torch.full((1, D), exact), rtol=1e-5, atol=0)


def test_learned_attention_begins_as_the_mean_and_learns():
    pooling, mean = Pooling("attention", width=D), Pooling("mean", width=D)
    for batch, _ in batches([3, 1, 6]):
        hidden = torch.randn(*batch["input_ids"].shape, D)
        torch.testing.assert_close(pooling(hidden, batch), mean(hidden, batch))
        pooling(hidden, batch)[:, 0].sum().backward()
        assert pooling.scores.grad.count_nonzero() == D
        pooling.scores.grad = None


def test_large_scores_do_not_overflow():
    pooling = Pooling("attention", width=D)
    torch.nn.init.constant_(pooling.scores, 1e4)
    torch.manual_seed(0)  # two sums that are nearly equal share the weight
    for batch, texts in batches([3, 4]):
        hidden = torch.randn(*batch["input_ids"].shape, D)
        expected = [text[text.sum(1).argmax()] for text in texts(hidden)]
        torch.testing.assert_close(pooling(hidden, batch), torch.stack(expected))


def test_it_is_the_same_in_a_forecast():
    from torch._subclasses.fake_tensor import FakeTensorMode

    for kind in KINDS:
        for batch, _ in batches([3, 1, 6]):
            with FakeTensorMode(allow_non_fake_inputs=True):
                pooling = Pooling(kind, width=D)
                hidden = torch.randn(*batch["input_ids"].shape, D, requires_grad=True)
                out = pooling(hidden, batch)
                out.sum().backward()
            assert out.shape == (3, D)
            assert hidden.grad.shape == hidden.shape


@pytest.mark.parametrize(
    ("kind", "tokens", "said"),
    [
        ("means", 1, "expected one of mean, cls, max, .*got 'means'; did you mean mean"),
        ("last-k", 0, "last-k needs at least 1 token, got 0"),
    ],
)
def test_what_it_does_not_know_is_refused(kind, tokens, said):
    with pytest.raises(ConfigError, match=said):
        Pooling(kind, width=D, tokens=tokens)


def test_it_says_what_it_is():
    assert repr(Pooling("last-k", width=D, tokens=3)) == "Pooling(last-k, tokens=3)"
    assert repr(Pooling("cls", width=D)) == "Pooling(cls)"
