"""Work that another form does, as the dataflow of recorded steps shows it."""

import math
from collections.abc import Callable

import pytest
import torch
from tests.observe.ledger.recorded import recorded
from torch import nn
from torch.nn import functional

from hotloop.core.case.rewrite import AttentionMask, Rewrite
from hotloop.observe.ledger.rewrites import found


def seen(loss: Callable[[], torch.Tensor], weights: list[torch.Tensor]) -> tuple[Rewrite, ...]:
    """Record steps of a loss; return the rewrites."""
    recorder, flow = recorded(lambda: [loss()], weights)
    result = found(flow)
    recorder.release()
    return result


def only(rewrites: tuple[Rewrite, ...], kind: str) -> Rewrite:
    """Return the only rewrite of a kind."""
    (one,) = [one for one in rewrites if one.kind == kind]
    return one


def none(rewrites: tuple[Rewrite, ...], kind: str) -> bool:
    return all(one.kind != kind for one in rewrites)


# Attention.

B, H, T, S, D = 2, 3, 6, 6, 4
LATER = torch.ones(T, T, dtype=torch.bool).triu(1)


def attention(change=lambda scores: scores, *, drop=0.0, keys=S, loss=None):
    """Record attention of `H` heads with `change` to its scores."""
    weight, memory = nn.Parameter(torch.randn(5, H * D)), torch.randn(B, keys, H * D)
    x = torch.randn(B, T, 5)

    def step() -> torch.Tensor:
        q = (x @ weight).view(B, T, H, D).transpose(1, 2)
        k = (memory * weight.sum()).view(B, keys, H, D).transpose(1, 2)
        weights = change(q @ k.transpose(-2, -1) / math.sqrt(D)).softmax(-1)
        if loss is not None:
            return loss(weights, weights @ k)
        return (functional.dropout(weights, drop) @ k).square().mean()

    return seen(step, [weight])


def test_attention_is_seen_with_its_shapes_and_lines():
    one = only(attention(), "attention")
    assert one.shapes == ((B, H, T, D), (B, H, S, D), (B, H, S, D))
    assert one.needs_grad == (True, True, True)
    assert (one.calls, one.masks, one.dropout, one.is_copied) == (1, (), 0.0, True)
    assert one.seconds > 0
    assert 0 < one.share < 1
    assert {place.file for place in one.places} == {__file__}


@pytest.mark.parametrize(
    ("change", "is_added"),
    [
        (lambda s: s.masked_fill(LATER, -math.inf), False),
        (
            lambda s: s.masked_fill_(torch.tril(torch.ones(T, T)).repeat(B, H, 1, 1) == 0, -1e9),
            False,
        ),
        (lambda s: torch.where(~LATER, s, -math.inf), False),
        (lambda s: torch.where(LATER, -math.inf, s), False),
        (lambda s: s + torch.zeros(T, T).masked_fill(LATER, -math.inf), True),
    ],
)
def test_a_causal_mask_is_known_by_its_values(change, is_added):
    (mask,) = only(attention(change), "attention").masks
    assert (mask.is_causal, mask.is_added) == (True, is_added)


def test_a_mask_that_hides_more_is_not_causal():
    padding = LATER.repeat(B, 1, 1, 1)
    padding[1, :, :, 4:] = True
    padding[:, :, :, 0] = False
    (mask,) = only(attention(lambda s: s.masked_fill(padding, -math.inf)), "attention").masks
    assert mask == AttentionMask(shape=(B, 1, T, T), is_added=False)


@pytest.mark.parametrize("drop", [0.25, 0.5])
def test_a_learned_bias_and_dropout_are_noted(drop):
    bias = nn.Parameter(torch.zeros(H, T, S))
    one = only(attention(lambda s: s + bias, drop=drop), "attention")
    assert one.masks == (AttentionMask(shape=(H, T, S), is_added=True, needs_grad=True),)
    assert one.dropout == pytest.approx(drop)


def test_cross_attention_has_keys_of_another_length():
    assert only(attention(keys=9), "attention").shapes[1] == (B, H, 9, D)


@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v: torch.baddbmm(torch.zeros(B, T, T), q, k.mT).softmax(-1) @ v,
        lambda q, k, v: torch.bmm(torch.softmax(torch.bmm(q, k.mT), -1), v),
        lambda q, k, v: torch.einsum(
            "bts,bsd->btd", torch.einsum("btd,bsd->bts", q, k).softmax(-1), v
        ),
    ],
)
def test_attention_of_one_head_is_seen_in_other_spellings(attend):
    weight, x = nn.Parameter(torch.randn(5, 5)), torch.randn(B, T, 5)
    one = only(seen(lambda: attend(x @ weight, x, x).square().mean(), [weight]), "attention")
    assert one.shapes[0] == (1, B, T, 5)


def test_weights_of_attention_that_are_read_elsewhere_are_left_alone():
    def loss(weights: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out.square().mean() + weights.square().mean()

    assert none(attention(loss=loss), "attention")
    kept = []

    def keep(weights: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        kept.append(weights)
        return out.square().mean()

    assert none(attention(loss=keep), "attention")


def test_scores_that_no_mask_can_stand_for_are_left_alone():
    assert none(attention(lambda s: s * LATER), "attention")
    assert none(attention(lambda s: s.tanh()), "attention")


# Contractions.


def pairs(reduce):
    """Record a loss on 24 x 5 rows of a weight."""
    weight = nn.Parameter(torch.randn(24, 5))
    return seen(lambda: reduce(weight).square().mean(), [weight])


@pytest.mark.parametrize(
    ("reduce", "form"),
    [
        (lambda z: (z[None] - z[:, None]).pow(2).sum(-1), "squared"),
        (lambda z: (z.unsqueeze(0) - z.unsqueeze(1)).square().mean(2), "squared"),
        (lambda z: (lambda d: d * d)(z[None] - z[:, None]).sum(-1), "squared"),
        (lambda z: (z[None] - z[:, None]).abs().sum(-1), "absolute"),
        (lambda z: (z[None] - z[:, None] * 2).norm(dim=-1), "norm"),
        (lambda z: (z[None] * z[:, None]).sum(-1), "product"),
        (lambda z: (z[None].expand(24, -1, -1) * z[:, None]).sum(-1), "product"),
    ],
)
def test_a_broadcast_and_a_sum_are_seen(reduce, form):
    one = only(pairs(reduce), "contraction")
    assert (one.form, one.shapes, one.reduced) == (form, ((1, 24, 5), (24, 1, 5)), (2,))


def test_outer_products_that_are_summed_over_the_batch_are_a_product():
    wide = lambda z: z.repeat(1, 4)  # noqa: E731
    outer = lambda z: (wide(z)[:, :, None] * wide(z)[:, None, :]).sum(0)  # noqa: E731
    one = only(pairs(outer), "contraction")
    assert (one.form, one.reduced) == ("product", (0,))


def test_differences_that_are_read_elsewhere_are_left_alone():
    def reduce(z: torch.Tensor) -> torch.Tensor:
        difference = z[None] - z[:, None]
        return difference.pow(2).sum(-1) + difference.sum(-1)

    assert none(pairs(reduce), "contraction")


def test_a_factor_for_each_row_is_no_broadcast_of_both():
    assert none(pairs(lambda z: (z * z[:, :1]).sum(0)), "contraction")
    assert none(pairs(lambda z: (z[None] * z[:, None]).relu().sum(-1)), "contraction")


# Products of one input.


class Gates(nn.Module):
    """A recurrent cell with a layer for each gate."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.of = nn.ModuleList(nn.Linear(3 + 4, 4, bias=bias) for _ in range(4))

    def forward(self, x: torch.Tensor, change=lambda h: h) -> torch.Tensor:
        h = c = torch.zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            xh = torch.cat([x[:, t], change(h)], 1)
            i, f, g, o = (gate(xh) for gate in self.of)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


def test_queries_keys_and_values_are_one_product():
    layers = nn.ModuleList(nn.Linear(6, size) for size in (6, 6, 12))
    x = torch.randn(2, 5, 6)
    loss = lambda: sum(layer(x).square().mean() for layer in layers)  # noqa: E731
    one = only(seen(loss, list(layers.parameters())), "one product")
    assert one.shapes == ((10, 6), (6, 6), (6, 6), (6, 12))
    assert (one.form, one.calls, one.in_loop) == ("with bias", 1, 1)
    assert one.needs_grad == (False, True, True, True)


def test_different_inputs_and_the_same_weight_twice_are_no_such_product():
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    x = torch.randn(4, 6)
    chain = lambda: second(first(x)).square().mean()  # noqa: E731
    assert none(seen(chain, [*first.parameters(), *second.parameters()]), "one product")
    twice = lambda: (first(x).relu() + first(x)).square().mean()  # noqa: E731
    assert none(seen(twice, list(first.parameters())), "one product")


def test_a_frozen_weight_is_not_put_beside_a_trained_one():
    frozen, trained = nn.Linear(6, 6).requires_grad_(False), nn.Linear(6, 6)
    x = torch.randn(4, 6)
    loss = lambda: (frozen(x) + trained(x)).square().mean()  # noqa: E731
    assert none(seen(loss, list(trained.parameters())), "one product")


def test_layers_that_choose_their_operators_themselves_are_left_alone():
    layer, x = nn.GRU(6, 4, bidirectional=True, batch_first=True), torch.randn(2, 5, 6)
    loss = lambda: layer(x)[0].square().mean()  # noqa: E731
    assert none(seen(loss, list(layer.parameters())), "one product")


@pytest.mark.parametrize("bias", [True, False])
def test_a_loop_over_time_that_is_an_lstm_is_one_call(bias):
    cell, x = Gates(bias), torch.randn(2, 7, 3)
    one = only(seen(lambda: cell(x).square().mean(), list(cell.parameters())), "one product")
    assert one.form == ("lstm" if bias else "lstm without bias")
    assert one.shapes == ((7, 2, 3), (7, 4))
    assert (one.calls, one.in_loop, one.needs_grad) == (1, 7, (False, True))


def test_a_cell_that_changes_its_state_is_no_lstm():
    cell, x = Gates(), torch.randn(2, 7, 3)
    loss = lambda: cell(x, change=lambda h: h.clamp(-1, 1)).square().mean()  # noqa: E731
    kinds = seen(loss, list(cell.parameters()))
    assert {one.form for one in kinds} == {"with bias"}
    assert {one.in_loop for one in kinds} == {7}


def test_inputs_that_the_loop_makes_are_not_known_before_it():
    cell, x, out = Gates(), torch.randn(2, 3), nn.Linear(4, 3)

    def loss() -> torch.Tensor:
        token, h = x, torch.zeros(2, 4)
        c = h
        for _ in range(5):
            xh = torch.cat([token, h], 1)
            i, f, g, o = (gate(xh) for gate in cell.of)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            token = out(h)
        return token.square().mean()

    kinds = seen(loss, [*cell.parameters(), *out.parameters()])
    assert all(not one.form.startswith("lstm") for one in kinds)


# Functions, element by element.


def pointwise(function, *, change=lambda x: x):
    """Record a loss with a function of a product, after `change`."""
    weight, x = nn.Parameter(torch.randn(6, 8)), torch.randn(5, 6)
    return seen(lambda: function(change(x @ weight)).square().mean(), [weight])


def new_gelu(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


ROOT = torch.tensor(math.sqrt(2.0))


@pytest.mark.parametrize(
    ("function", "form", "operators"),
    [
        (new_gelu, "F.gelu(x, approximate='tanh')", 8),
        (lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))), None, 9),
        (lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), "F.gelu(x)", 5),
        (lambda x: x * 0.5 * (1.0 + torch.erf(x / ROOT)), "F.gelu(x)", 5),
        (lambda x: x * torch.sigmoid(x), "F.silu(x)", 2),
        (lambda x: (torch.erf(x / 2**0.5).add_(1.0) * x).mul_(0.5), "F.gelu(x)", 5),
        (lambda x: x / (1 + torch.exp(-x)), "F.silu(x)", 4),
        (lambda x: x * functional.softplus(x).tanh(), "F.mish(x)", 3),
        (lambda x: torch.log(1 + torch.exp(x)), "F.softplus(x)", 3),
        (lambda x: torch.log1p(torch.exp(2 * x)) / 2, "F.softplus(x, 2)", 4),
        (lambda x: x * functional.relu6(x + 3) / 6, "F.hardswish(x)", 4),
        (lambda x: (x / 6 + 0.5).clamp(0, 1), "F.hardsigmoid(x)", 3),
        (lambda x: torch.where(x > 0, x, 0.2 * x), "F.leaky_relu(x, 0.2)", 3),
        (lambda x: torch.where(x > 0, x, 1.5 * (x.exp() - 1)), "F.elu(x, 1.5)", 5),
        (lambda x: torch.log(torch.sigmoid(x)), "F.logsigmoid(x)", 2),
        (lambda x: x * (x > 0), "F.relu(x)", 2),
        (lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()), "torch.tanh(x)", 9),
    ],
)
def test_a_function_of_torch_that_is_composed_is_seen(function, form, operators):
    one = only(pointwise(function), "composed function")
    assert one.form == (form or "F.gelu(x, approximate='tanh')")
    assert (one.shapes, one.needs_grad, one.dtypes) == (((5, 8),), (True,), ("float32",))
    assert (len(one.steps), one.calls) == (operators, 1)
    assert {place.file for place in one.places} == {__file__}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * torch.sigmoid(1.702 * x),  # nearly GELU
        lambda x: x * torch.sigmoid(x.detach()),
        lambda x: x + (functional.hardtanh(x) / 2 - x).detach(),
        lambda x: x * torch.sigmoid(x.flip(0)),
        lambda x: x * torch.sigmoid(x.T.reshape(5, 8)),
        lambda x: x * torch.sigmoid(x.double()).float(),
        lambda x: (lambda s: x * s + s.sum())(torch.sigmoid(x)),
        lambda x: x * torch.sigmoid(x + torch.ones(8)),
        lambda x: torch.sin(x) * 2 + 1,
        lambda x: functional.silu(x),
        lambda x: functional.gelu(x, approximate="tanh") * 2,
    ],
)
def test_other_functions_are_left_alone(function):
    assert none(pointwise(function), "composed function")


class Normalised(nn.Module):
    """A normalisation of rows, written out, between products."""

    def __init__(self, function, weights=2):
        super().__init__()
        self.first, self.function = nn.Linear(6, 8), function
        self.own = nn.ParameterList([nn.Parameter(torch.randn(8)) for _ in range(weights)])

    def forward(self, x):
        return self.function(self.first(x), *self.own)


def normalised(function, weights=2):
    model, x = Normalised(function, weights), torch.randn(5, 6)
    noise = torch.randn(5, 8)
    return seen(lambda: (model(x) * noise).sum(), list(model.parameters()))


def by_std(x, factor, summand, eps=1e-6):
    return factor * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + summand


def by_mean_of_squares(x, factor, summand):
    mean = x.mean(-1, keepdim=True)
    spread = (x - mean).pow(2).mean(-1, keepdim=True)
    return factor * ((x - mean) / torch.sqrt(spread + 1e-12)) + summand


@pytest.mark.parametrize(
    ("function", "weights", "form"),
    [
        (
            by_std,
            2,
            "F.layer_norm(x, x.shape[-1:], (1 - 1 / x.shape[-1]) ** 0.5 * weight, bias, eps=1e-12)",
        ),
        (by_mean_of_squares, 2, "F.layer_norm(x, x.shape[-1:], weight, bias, eps=1e-12)"),
        (
            lambda x: (x - x.mean(1)[:, None]) / (x.var(1, unbiased=False)[:, None] + 1e-5) ** 0.5,
            0,
            "F.layer_norm(x, x.shape[-1:], eps=1e-05)",
        ),
        (
            lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
            1,
            "F.rms_norm(x, x.shape[-1:], weight, eps=1e-06)",
        ),
        (lambda x: x.exp() / x.exp().sum(-1, keepdim=True), 0, "F.softmax(x, -1)"),
        (
            lambda x: (lambda e: e / e.sum(-1, keepdim=True))(
                (x - x.max(-1, keepdim=True)[0]).exp()
            ),
            0,
            "F.softmax(x, -1)",
        ),
        (lambda x: torch.log(functional.softmax(x, dim=1)), 0, "F.log_softmax(x, -1)"),
    ],
)
def test_a_function_of_rows_that_is_composed_is_seen(function, weights, form):
    one = only(normalised(function, weights), "composed function")
    assert one.form == form
    assert one.shapes == ((5, 8), *[(8,)] * weights)
    assert one.needs_grad == (True,) * (1 + weights)
    assert {place.file for place in one.places} == {__file__}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: w * (x - x.mean(0, keepdim=True)) / (x.std(0, keepdim=True) + 1e-6) + b,
        lambda x, w, b: w * (x - x.mean()) / (x.std() + 1e-6) + b,
        lambda x, w, b: w * (x - x.mean(-1, keepdim=True).detach()) / x.std(-1, keepdim=True) + b,
        lambda x, w, b: w * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 0.05) + b,
        lambda x, w, b: w * (x - x.mean(-1, keepdim=True)) / x.amax(-1, keepdim=True) + b,
        lambda x, w, b: functional.layer_norm(x, (8,), w, b),
        lambda x, w, b: w * functional.softmax(x, -1) + b,
    ],
)
def test_other_functions_of_rows_are_left_alone(function):
    assert none(normalised(function), "composed function")


def test_a_transposed_result_is_no_function_of_each_element():
    weight, x = nn.Parameter(torch.randn(6, 6)), torch.randn(6, 6)
    loss = lambda: (lambda y: (y * y.sigmoid().T).square().mean())(x @ weight)  # noqa: E731
    assert none(seen(loss, [weight]), "composed function")


def test_an_intermediate_that_is_kept_is_needed():
    kept = []

    def silu(x: torch.Tensor) -> torch.Tensor:
        kept.append(torch.sigmoid(x))
        return x * kept[-1]

    assert none(pointwise(silu), "composed function")


def test_a_function_is_seen_between_other_operators():
    function = lambda x: 3 * (new_gelu(x / 7) - 1)  # noqa: E731
    one = only(pointwise(function, change=lambda x: 2 * x.tanh()), "composed function")
    assert (one.form, len(one.steps)) == ("F.gelu(x, approximate='tanh')", 8)
    gated = lambda x: new_gelu(x[:, :4]) * x[:, 4:]  # noqa: E731
    assert only(pointwise(gated), "composed function").shapes == ((5, 4),)


def test_calls_at_several_lines_are_one_function():
    def twice(x: torch.Tensor) -> torch.Tensor:
        first = x * torch.sigmoid(x)
        again = first.flip(0)
        return again * torch.sigmoid(again)

    one = only(pointwise(twice), "composed function")
    assert (one.calls, len(one.places)) == (2, 2)
