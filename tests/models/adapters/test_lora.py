"""LoRA and (IA)^3 compute what their formulas say, and what PEFT computes."""

import pytest
import torch
from tests.golden.adapting import QUIET, copied_to_peft, logits, loss_of, stirred, tiny
from torch import nn
from torch.nn import functional

from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig

pytestmark = pytest.mark.filterwarnings(QUIET)
I, O, N = 12, 7, 5  # noqa: E741 - the dims of lora.py


def layer(kind="lora", seed=0, bias=True, dtype=torch.float32, **values):
    """Return one adapted layer, moved away from where it began, and a copy of what is frozen."""
    torch.manual_seed(seed)
    model = nn.ModuleDict({"it": nn.Linear(I, O, bias=bias, dtype=dtype)})
    weight, old_bias = model["it"].weight.detach().clone(), model["it"].bias
    attach(model, AdapterConfig(kind=kind, rank=4, alpha=6, **values))
    return stirred(model, by=0.3)["it"], weight, old_bias


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(I,), (N, I), (2, 3, I), (0, I)])
def test_lora_is_its_formula(shape, bias):
    it, weight, old_bias = layer(bias=bias)
    x = torch.randn(shape)
    expected = functional.linear(x, weight + 1.5 * it.lora_B @ it.lora_A, old_bias)
    assert it(x).shape == (*shape[:-1], O)
    assert torch.allclose(it(x), expected, atol=1e-6)


def test_gradients_are_those_of_the_formula():
    it, weight, old_bias = layer()
    x = torch.randn(N, I, requires_grad=True)
    back = torch.randn(N, O)
    wanted = (x, it.lora_A, it.lora_B)
    mine = torch.autograd.grad(it(x), wanted, back)
    plain = functional.linear(x, weight + 1.5 * it.lora_B @ it.lora_A, old_bias)
    for one, other in zip(mine, torch.autograd.grad(plain, wanted, back), strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert not it.weight.requires_grad
    assert not it.bias.requires_grad


def test_the_begin_is_that_of_peft():
    """kaiming_uniform_(a=sqrt(5)) is uniform within 1 / sqrt(inputs); B is 0."""
    model = nn.ModuleDict({"it": nn.Linear(400, 50)})
    attach(model, AdapterConfig(rank=64))
    a, bound = model["it"].lora_A, 1 / 400**0.5
    assert a.abs().max() <= bound
    assert a.abs().max() > 0.99 * bound
    assert abs(a.std() / (bound / 3**0.5) - 1) < 0.02
    assert not model["it"].lora_B.any()


def test_dropout_is_before_a_in_training_alone():
    it, weight, old_bias = layer(dropout=0.5)
    x = torch.randn(N, I)
    torch.manual_seed(7)
    drawn = it(x)
    torch.manual_seed(7)
    lowered = functional.dropout(x, 0.5) @ it.lora_A.T
    expected = functional.linear(x, weight, old_bias) + 1.5 * lowered @ it.lora_B.T
    assert torch.allclose(drawn, expected, atol=1e-6)
    it.eval()
    assert torch.allclose(
        it(x), functional.linear(x, weight + 1.5 * it.lora_B @ it.lora_A, old_bias), atol=1e-6
    )


def test_adapters_are_fp32_on_frozen_weights_in_bf16():
    it, weight, old_bias = layer(dtype=torch.bfloat16)
    assert it.lora_A.dtype == it.lora_B.dtype == torch.float32
    x = torch.randn(N, I).bfloat16()
    y = it(x)
    assert y.dtype == torch.bfloat16
    expected = functional.linear(
        x.float(), weight.float() + 1.5 * it.lora_B @ it.lora_A, old_bias.float()
    )
    assert (y - expected).abs().max() < 0.02 * expected.abs().max()
    y.float().sum().backward()
    assert it.lora_A.grad.dtype == torch.float32


def test_an_update_below_the_rounding_of_bf16_has_its_effect():
    model = nn.ModuleDict({"it": nn.Linear(256, 128, dtype=torch.bfloat16)})
    attach(model, AdapterConfig(rank=8, alpha=8))
    it, x = model["it"], torch.randn(512, 256).bfloat16()
    before = it(x).double()
    with torch.no_grad():
        it.lora_B.normal_(std=1e-3)
    update = (x.float() @ it.lora_A.T @ it.lora_B.T).double()
    assert update.abs().mean() < 0.004 * before.abs().mean()
    effect = (((it(x) - before) * update).sum() / (update * update).sum()).item()
    assert effect == pytest.approx(1, abs=0.04)  # 0.92 if it is added to the rounded product


@pytest.mark.parametrize("kind", ["lora", "dora", "ia3"])
def test_autocast_computes_in_bf16(kind):
    it, *_ = layer(kind)
    x = torch.randn(N, I)
    exact = it(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = it(x)
    assert y.dtype == torch.bfloat16
    assert 0 < (y - exact).abs().max() < 0.03 * exact.abs().max()
    y.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.any() for p in it.trained().values())


@pytest.mark.parametrize("feedforward", [(), ("it",)])
def test_ia3_is_its_formula(feedforward):
    it, weight, old_bias = layer("ia3", feedforward=feedforward)
    x, factors = torch.randn(2, N, I), it.ia3_l.flatten()
    assert it.ia3_l.shape == ((1, I) if feedforward else (O, 1))
    if feedforward:
        expected = functional.linear(x * factors, weight, old_bias)
    else:
        expected = functional.linear(x, weight, old_bias) * factors
    assert torch.allclose(it(x), expected, atol=1e-6)


def peft_of(name, config, **more):
    """Return a tiny model with ours and one with PEFT's adapters, with equal values."""
    import peft

    ours, theirs = tiny(name), tiny(name)
    attach(ours, config)
    about = {"target_modules": list(config.targets), **more}
    if config.kind == "ia3":
        made = peft.IA3Config(feedforward_modules=["down_proj"], **about)
    else:
        made = peft.LoraConfig(
            r=config.rank,
            lora_alpha=config.alpha,
            lora_dropout=config.dropout,
            use_rslora=config.rslora,
            use_dora=config.kind == "dora",
            **about,
        )
    return ours, copied_to_peft(ours, peft.get_peft_model(theirs, made))


def losses(model, steps=50):
    """Train on another batch in each step; return the loss of each."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    found = []
    for step in range(steps):
        loss = loss_of(model, step % 7)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "lora"},
        {"kind": "lora", "rslora": True, "alpha": 8.0},
        {"kind": "dora"},
        {"kind": "ia3", "targets": ("k_proj", "v_proj", "down_proj")},
    ],
    ids=["lora", "rslora", "dora", "ia3"],
)
def test_fifty_steps_are_those_of_peft(values):
    config = AdapterConfig(**{"rank": 4, "targets": ("q_proj", "v_proj", "down_proj"), **values})
    ours, theirs = peft_of("qwen3", config)
    mine, expected = losses(ours), losses(theirs)
    assert (mine / expected - 1).abs().max() <= 1e-5
    assert mine[:7].mean() - mine[-7:].mean() > (0.05 if config.kind == "ia3" else 0.3)


def test_dropout_draws_what_peft_draws():
    config = AdapterConfig(rank=4, dropout=0.3, targets=("q_proj", "v_proj"))
    ours, theirs = peft_of("qwen3", config)
    stirred(ours)
    copied_to_peft(ours, theirs)
    still = logits(ours)
    for model in (ours, theirs):
        model.train()
    torch.manual_seed(11)
    mine = logits(ours)
    torch.manual_seed(11)
    assert (mine - logits(theirs)).abs().max() <= 1e-5
    assert (mine - still).abs().max() > 1e-2
