"""Layers that read one input compute together what each of them computes alone."""

import copy
import weakref

import pytest
import torch
from tests.golden.adapting import stirred, tiny
from torch import nn
from torch.utils.checkpoint import checkpoint

from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.held import FixedAdapters, adapters_held
from hotloop.models.adapters.multi_task import attach_stack
from hotloop.models.adapters.product import AdapterProduct

KINDS = ("lora", "dora")
SIZES = {"q_proj": 16, "k_proj": 8, "v_proj": 8}
I = 12  # noqa: E741 - the dims of lora.py


class Projections(nn.Module):
    """The three projections of an attention, summed as far as they are used."""

    def __init__(self, uses=tuple(SIZES), bias=False):
        super().__init__()
        for name, width in SIZES.items():
            setattr(self, name, nn.Linear(I, width, bias=bias))
        self.uses = uses

    def forward(self, x, of_keys=None):
        others = x if of_keys is None else of_keys
        outputs = [getattr(self, n)(x if n == "q_proj" else others) for n in self.uses]
        return sum(y.square().sum(-1) * (at + 1) for at, y in enumerate(outputs))


def made(kind, **values):
    torch.manual_seed(0)
    config = AdapterConfig(kind=kind, rank=4, alpha=6, dropout=values.pop("dropout", 0.0))
    model = nn.ModuleDict({"it": Projections(**values)})
    attach(model, config)
    return stirred(model, by=0.3)["it"]


def apart(module):
    """Return a copy whose layers compute alone."""
    alone = copy.deepcopy(module)
    for layer in adapted(alone).values():
        layer.beside = None
    return alone


def passed(module, *inputs, seed=3):
    """Return the output, and the gradients of the inputs and of the adapters."""
    torch.manual_seed(seed)
    inputs = [x.clone().requires_grad_() for x in inputs]
    y = module(*inputs)
    trained = [p for p in module.parameters() if p.requires_grad]
    return [y.detach(), *torch.autograd.grad(y.sum(), [*inputs, *trained], allow_unused=True)]


def assert_close(mine, expected):
    for one, other in zip(mine, expected, strict=True):
        assert (one is None) == (other is None) or not (one if other is None else other).any()
        if one is not None and other is not None:  # sums are made in another order
            assert (one - other).norm() <= 1e-5 * (1 + other.norm())


@pytest.fixture
def nodes(monkeypatch):
    """Return the number of layers in each product that is made."""
    counts, forward = [], AdapterProduct.forward

    def counted(ctx, x, low, h, layers, *rest):
        counts.append(len(layers))
        return forward(ctx, x, low, h, layers, *rest)

    monkeypatch.setattr(AdapterProduct, "forward", staticmethod(counted))
    return counts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [5, 40])  # fewer and more than inputs: DoRA's two forms
@pytest.mark.parametrize("held", [False, True])
def test_together_they_compute_what_each_computes_alone(kind, bias, rows, held, nodes):
    module = made(kind, bias=bias)
    x, alone = torch.randn(rows, I), apart(module)
    expected = passed(alone, x)
    nodes.clear()
    if held:
        with adapters_held(module):
            mine = [passed(module, x) for _ in range(2)][1]
    else:
        mine = passed(module, x)
    assert set(nodes) == {3}
    assert_close(mine, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "uses", [("q_proj",), ("v_proj", "q_proj"), ("q_proj", "k_proj", "q_proj")]
)
def test_an_output_that_nobody_takes_has_no_gradient(kind, uses):
    module = made(kind, uses=uses)
    x, alone = torch.randn(9, I), apart(module)
    for _ in range(2):  # what one pass leaves is not taken by the next
        assert_close(passed(module, x), passed(alone, x))
        x = torch.randn(9, I)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_that_get_another_input_are_computed_with_it(kind):
    module = made(kind)
    x, keys, alone = torch.randn(9, I), torch.randn(9, I), apart(module)
    assert_close(passed(module, x, keys), passed(alone, x, keys))


def test_an_input_that_was_written_to_is_another_one():
    module = made("lora")
    alone, x = apart(module), torch.randn(9, I)
    for each in (module, alone):
        with torch.no_grad():
            each.q_proj(x.fill_(1.0))
            x.mul_(2)
            each.after = each.k_proj(x)
    assert torch.allclose(module.after, alone.after, atol=1e-6)
    with torch.no_grad():
        module.q_proj(x)
    assert module.k_proj(x).requires_grad, "an output without gradients is not taken for training"
    with torch.inference_mode():
        module.q_proj(torch.ones(2, I))


def test_dropout_is_drawn_for_each_layer(nodes):
    module = made("lora", dropout=0.5)
    x, alone = torch.randn(9, I), apart(module)
    assert_close(passed(module, x), passed(alone, x))
    assert nodes == [1] * 6
    module.eval()
    module(x)
    assert nodes[6:] == [3]


def test_with_autocast_the_output_is_of_16_bits(nodes):
    module = made("lora")
    x, alone = torch.randn(40, I), apart(module)
    with torch.autocast("cpu", torch.bfloat16):
        mine, expected = passed(module, x), passed(alone, x)
        assert module.q_proj(x).dtype == torch.bfloat16
    for one, other in zip(mine, expected, strict=True):
        assert one.dtype == other.dtype
        assert (one - other).norm() <= 0.02 * other.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_recomputed_layers_give_the_same_bits(kind):
    module, x = made(kind), torch.randn(9, I)

    def recomputed(x):
        return checkpoint(module, x, use_reentrant=False)

    recomputed.parameters = module.parameters
    pairs = zip(passed(recomputed, x), passed(module, x), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_fixed_adapters_follow_an_update(kind):
    module, x = made(kind), torch.randn(9, I)
    fixed = FixedAdapters(module)
    with fixed.used():
        passed(module, x)
        kept = module.q_proj.holder.ready(module.q_proj, torch.float32).a_GRI
        with torch.no_grad():
            for parameter in (p for p in module.parameters() if p.requires_grad):
                parameter.mul_(1.5)
        fixed.refresh()
        assert module.q_proj.holder.ready(module.q_proj, torch.float32).a_GRI is kept
        assert_close(passed(module, x), passed(apart(module), x))


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "roberta"])
def test_the_layers_of_models_are_found(name):
    model = tiny(name)
    attach(model, AdapterConfig(kind="lora", rank=4))
    shared = [n.rpartition(".")[2] for n, m in adapted(model).items() if m.beside is not None]
    expected = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
    assert {*shared} == ({"query", "key", "value"} if name == "roberta" else expected)


def test_a_model_with_an_encoder_and_a_decoder_shares_nothing():
    config = type("Config", (), {"is_encoder_decoder": True})()
    model = nn.ModuleDict({"it": Projections()})
    model.config = config
    attach(model, AdapterConfig(kind="lora", rank=4))
    assert all(layer.beside is None for layer in adapted(model).values())


def test_adapters_of_several_tasks_share_their_input_too(nodes):
    module = nn.ModuleDict({"it": Projections()})
    tasks = ("a", "b", "c")
    shares = attach_stack(module, AdapterConfig(kind="lora", rank=4), tasks)
    stirred(module, by=0.3)
    x, shares_of = torch.randn(4, 5, I), torch.rand(4, len(tasks))
    alone = apart(module["it"])
    shares.give(shares_of, {"input_ids": torch.zeros(4, 5)})
    alone.q_proj.shares.give(shares_of, {"input_ids": torch.zeros(4, 5)})
    expected = passed(alone, x)
    nodes.clear()
    mine = passed(module["it"], x)
    assert nodes == [3]
    assert_close(mine, expected)


def test_a_pass_that_fails_leaves_nothing_alive():
    module, x = made("lora"), torch.randn(9, I)
    h = x * 2
    seen = weakref.ref(h)
    with adapters_held(module):
        module.q_proj(h)  # k and v are never called
    del h
    assert seen() is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_shallow_copy_computes_alone(kind):
    module, x = made(kind), torch.randn(9, I)
    expected = module.k_proj(x)
    copied = copy.copy(module.k_proj)
    assert torch.allclose(copied(x), expected, atol=1e-6)
