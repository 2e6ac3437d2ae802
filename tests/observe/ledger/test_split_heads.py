"""Heads of attention that are computed one by one, as recorded steps show them."""

import math

import torch
from tests.observe.ledger.recorded import recorded
from torch import nn

from hotloop.observe.ledger.rewrites import found

B, T, C, SIZE = 2, 6, 12, 4
LATER = torch.ones(T, T, dtype=torch.bool).triu(1)


def seen(heads: int, *, bias: bool = True, cross: bool = False, shared: bool = False):
    """Record steps of attention with a module for each projection of each head."""
    layers = nn.ModuleList(nn.Linear(C, SIZE, bias=bias) for _ in range(3 * heads))
    x, other = torch.randn(B, T, C), torch.randn(B, T, C)

    def loss() -> torch.Tensor:
        results = []
        for head in range(heads):
            query, key, value = layers[0 if shared else 3 * head :][:3]
            memory = other if cross else x
            scores = query(x) @ key(memory).transpose(-2, -1) / math.sqrt(SIZE)
            results.append(scores.masked_fill(LATER, -math.inf).softmax(-1) @ value(memory))
        return torch.cat(results, -1).square().mean()

    recorder, flow = recorded(lambda: [loss()], list(layers.parameters()))
    result = [one for one in found(flow) if one.kind == "split heads"]
    recorder.release()
    return result


def test_heads_are_seen_with_their_input_and_mask():
    for bias in (True, False):
        (one,) = seen(3, bias=bias)
        assert one.in_loop == 3
        assert one.shapes == ((B * T, C), (B, T, SIZE), (B, T, SIZE))
        assert one.needs_grad == (False, True, True)
        assert one.form == ("with bias" if bias else "")
        assert one.calls == 1
        (mask,) = one.masks
        assert mask.is_causal


def test_one_head_other_inputs_and_shared_weights_are_none():
    assert not seen(1)
    assert not seen(3, cross=True)
    assert not seen(3, shared=True)
