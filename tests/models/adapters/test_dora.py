"""DoRA is exact, and its norm is never that of other weights."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.adapting import QUIET, logits, loss_of, stirred
from tests.models.adapters.test_lora import peft_of
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.held import adapters_held

pytestmark = pytest.mark.filterwarnings(QUIET)
I, O = 12, 7  # noqa: E741 - the dims of dora.py


def layer(*, bias=True, dtype=torch.float32, width=I, height=O, rank=4, seed=0, by=0.3, **values):
    torch.manual_seed(seed)
    model = nn.ModuleDict({"it": nn.Linear(width, height, bias=bias, dtype=dtype)})
    attach(model, AdapterConfig(kind="dora", rank=rank, alpha=1.5 * rank, **values))
    return stirred(model, by=by)["it"]


def norm(it):
    """Return the norm of the rows of W + sBA, which is built, in fp64."""
    built = it.weight.double() + it.scaling * it.lora_B.double() @ it.lora_A.double()
    return torch.linalg.vector_norm(built, dim=1).detach()


def formula(it, x):
    """Return what DoRA is, with the norm a constant."""
    built = it.weight + it.scaling * it.lora_B @ it.lora_A
    scaled = (it.lora_magnitude_vector / norm(it).float())[:, None] * built
    return functional.linear(x, scaled, it.bias)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 40),
    st.integers(1, 20),
    st.floats(0.001, 3),
    st.integers(0, 9),
)
def test_the_norm_is_that_of_the_weight_never_built(width, height, rank, by, seed):
    it = layer(width=width, height=height, rank=rank, by=by, seed=seed)
    rows_of_a = torch.linalg.vector_norm(it.lora_A.double(), dim=1)
    summands = torch.linalg.vector_norm(it.weight.double(), dim=1)
    summands = (summands + it.scaling * it.lora_B.double().abs() @ rows_of_a) ** 2
    error = (it.inverse_norm().double() ** -2 - norm(it) ** 2).abs()
    assert (error <= 4e-7 * summands).all()


def test_the_norm_of_weights_in_bf16_is_exact_too():
    it = layer(dtype=torch.bfloat16, width=300, height=40, by=0.05)
    assert (it.inverse_norm() * norm(it) - 1).abs().max() <= 2e-6


def test_the_norm_follows_a_model_that_is_cast_as_a_whole():
    it = layer(width=300, height=40, by=0.05).bfloat16()
    assert (it.inverse_norm() * norm(it) - 1).abs().max() <= 2e-6


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("count", [1, I - 1, I, 40])  # below I the result is scaled, else W
def test_outputs_and_gradients_are_those_of_the_formula(count, bias):
    it = layer(bias=bias)
    x = torch.randn(count, I, requires_grad=True)
    back = torch.randn(count, O)
    assert torch.allclose(it(x), formula(it, x), atol=2e-6)
    wanted = (x, it.lora_A, it.lora_B, it.lora_magnitude_vector)
    mine = torch.autograd.grad(it(x), wanted, back)
    for one, other in zip(mine, torch.autograd.grad(formula(it, x), wanted, back), strict=True):
        assert torch.allclose(one, other, atol=1e-4, rtol=1e-4)


def test_an_input_that_needs_no_gradient_gets_none():
    it = layer()
    it(torch.randn(3, I)).sum().backward()
    assert all(p.grad.any() for p in it.trained().values())


def test_a_row_of_zeros_makes_zeros_and_no_nan():
    model = nn.ModuleDict({"it": nn.Linear(I, O, bias=False)})
    with torch.no_grad():
        model["it"].weight[2] = 0
    attach(model, AdapterConfig(kind="dora"))
    it = model["it"]
    y = it(torch.randn(20, I))
    y.sum().backward()
    assert not y[:, 2].any()
    assert y[:, 3].all()
    assert all(p.grad.isfinite().all() for p in it.trained().values())


def test_factors_are_not_rounded_to_bf16():
    """bf16 near 1 goes in steps of 1 / 128 up: 1.003 would have no effect at all."""
    for count in (64, 512):  # the result is scaled, and the weight
        it = layer(dtype=torch.bfloat16, bias=False, width=256, height=64, by=0.0)
        x = torch.randn(count, 256).bfloat16()
        before = it(x).double()
        with torch.no_grad():
            it.lora_magnitude_vector.mul_(1.003)
        moved = ((it(x) * before).sum() / (before * before).sum() - 1).item()
        assert moved == pytest.approx(0.003, abs=0.001)  # what it multiplies is rounded, too


def test_first_gradients_are_those_of_peft():
    config = AdapterConfig(kind="dora", rank=4, targets=("q_proj", "down_proj"))
    ours, theirs = peft_of("gemma3", config)
    for model in (ours, theirs):
        loss_of(model, 0).backward()
    named = dict(theirs.named_parameters())
    for name, it in adapted(ours).items():
        at = f"base_model.model.{name}."
        for key, parameter in (
            ("lora_B.default.weight", it.lora_B),
            ("lora_magnitude_vector.default.weight", it.lora_magnitude_vector),
        ):
            difference = (parameter.grad - named[at + key].grad).norm()
            assert difference <= 1e-5 * parameter.grad.norm()
            assert parameter.grad.any()


def optimizers():
    return {
        "fused": lambda params: torch.optim.AdamW(params, lr=0.1, fused=True),
        "foreach": lambda params: torch.optim.AdamW(params, lr=0.1, foreach=True),
        "sgd": lambda params: torch.optim.SGD(params, lr=0.02),
    }


@pytest.mark.parametrize("name", optimizers())
@pytest.mark.parametrize("held", [False, True])
def test_the_norm_follows_every_optimizer(name, held):
    it = layer()
    optimizer = optimizers()[name](it.trained().values())
    x = torch.randn(30, I)

    def run():
        for _ in range(3):
            before = it.inverse_norm()
            it(x).square().mean().backward()  # gradients are dropped after the forward: a habit
            optimizer.step()
            optimizer.zero_grad()
            assert not torch.equal(it.inverse_norm(), before)
            with torch.no_grad():  # an evaluation right after the step
                assert torch.allclose(it(x), formula(it, x), atol=1e-5)

    if held:
        with adapters_held(it):
            run()
    else:
        run()


def test_what_is_written_past_the_versions_is_seen():
    it = layer()
    x = torch.randn(30, I)
    it(x)
    it.lora_B.data.mul_(3)
    assert torch.allclose(it(x), formula(it, x), atol=1e-5)


def test_micro_batches_share_one_norm_while_it_is_held():
    it = layer()
    with adapters_held(it):
        first = it.holder.ready(it, torch.float32)
        it(torch.randn(30, I)).sum().backward()
        assert it.holder.ready(it, torch.float32) is first
        with torch.inference_mode():
            it(torch.randn(30, I))
        assert it.holder.ready(it, torch.float32) is first
    assert it.holder is None


def test_a_norm_held_first_in_inference_mode_can_be_trained_with():
    it = layer()
    with adapters_held(it):
        with torch.inference_mode():
            it(torch.randn(3, I))
        it(torch.randn(3, I)).sum().backward()
    assert it.lora_magnitude_vector.grad.any()


def test_a_held_norm_is_let_go_when_weights_are_loaded():
    it, other = layer(), layer(seed=3)
    x = torch.randn(30, I)
    with adapters_held(it):
        it(x)
        it.load_state_dict(other.state_dict())
        assert torch.allclose(it(x), other(x), atol=1e-6)


def test_frozen_weights_that_are_loaded_later_are_measured_again():
    it, other = layer(), layer(seed=3)
    frozen = {"weight": other.weight}
    it.load_state_dict(frozen, strict=False)
    assert (it.inverse_norm() * norm(it) - 1).abs().max() <= 2e-6


def test_holding_ends_with_an_error_and_can_be_nested():
    it = layer()
    with adapters_held(it):
        with pytest.raises(ZeroDivisionError), adapters_held(it):
            1 / 0  # noqa: B018 - to raise
        assert it.holder is not None
    assert it.holder is None


@pytest.mark.parametrize("held", [False, True])
def test_recomputed_activations_give_the_same_bits(held):
    model = nn.Sequential(nn.Linear(I, I), nn.GELU(), nn.Linear(I, O))
    attach(model, AdapterConfig(kind="dora", dropout=0.2))
    stirred(model)
    again = copy.deepcopy(model)
    x = torch.randn(30, I, requires_grad=True)

    def run(one, call):
        torch.manual_seed(5)
        loss = call(one).square().sum()
        loss.backward()
        return [loss.detach(), *(p.grad for p in one.parameters() if p.requires_grad)]

    def recomputed(one):
        if not held:
            return checkpoint(one, x, use_reentrant=False)
        with adapters_held(one):
            return checkpoint(one, x, use_reentrant=False)

    mine, expected = run(model, recomputed), run(again, lambda one: one(x))
    assert all(torch.equal(a, b) for a, b in zip(mine, expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compiled_layer_is_equal_and_never_stale(dtype):
    it = layer(dtype=dtype)
    x = torch.randn(30, I, requires_grad=True, dtype=dtype)
    compiled = torch.compile(it, backend="aot_eager", fullgraph=True)
    close = {"atol": 1e-5} if dtype == torch.float32 else {"atol": 0.06, "rtol": 0.03}
    for _ in range(2):
        wanted = (x, *it.trained().values())
        mine = torch.autograd.grad(compiled(x).float().square().sum(), wanted)
        expected = torch.autograd.grad(it(x).float().square().sum(), wanted)
        assert torch.allclose(compiled(x), it(x), **close)
        for one, other in zip(mine, expected, strict=True):
            assert (one - other).norm() <= (1e-5 if dtype == torch.float32 else 0.03) * other.norm()
        it.lora_B.data.mul_(2)
        it.lora_magnitude_vector.data.mul_(0.5)


def test_dropout_leaves_evaluation_to_that_of_peft():
    config = AdapterConfig(kind="dora", rank=4, dropout=0.4, targets=("q_proj", "down_proj"))
    ours, theirs = peft_of("qwen3", config)
    for model in (ours, theirs):
        model.eval()
    assert (logits(ours) - logits(theirs)).abs().max() <= 1e-5


def test_dropout_in_training_is_before_a_alone():
    it = layer(dropout=0.5)
    x = torch.randn(30, I)
    torch.manual_seed(7)
    drawn = it(x)
    torch.manual_seed(7)
    lowered = functional.dropout(x, 0.5) @ it.lora_A.T
    summed = x @ it.weight.T + it.scaling * lowered @ it.lora_B.T
    expected = summed * (it.lora_magnitude_vector * it.inverse_norm()) + it.bias
    assert torch.allclose(drawn, expected, atol=1e-5)
