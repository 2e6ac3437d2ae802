"""The quick update against torch's own: the same bits, or the optimizer makes its own step."""

import copy
import importlib

import pytest
import torch
from torch import nn

from hotloop.engine.fused_update import FusedStep, total_norm

DIVIDE = torch.tensor(1.7)


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 9), nn.GELU(), nn.Linear(9, 3))


def optimizer(of: nn.Module, **options) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in of.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in of.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, **{"lr": 0.01, "betas": (0.9, 0.99), "fused": True, **options})


def gradients(of: nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    of(torch.randn(7, 5)).square().mean().backward()


@pytest.mark.parametrize("divide", [None, DIVIDE])
def test_it_gives_the_bits_of_the_optimizers_own_step(divide):
    one, other = model(), model()
    quick, plain = FusedStep(optimizer(one)), optimizer(other)
    for seed in range(5):
        gradients(one, seed)
        gradients(other, seed)
        found = quick.gradients()
        quick.step(found, divide=divide, found_inf=None)
        plain.grad_scale, plain.found_inf = divide, None
        plain.step()
        quick.clear()
        plain.zero_grad()
    assert all(p.grad is None for p in one.parameters())
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    mine = quick._optimizer.state_dict()["state"]
    for index, entries in plain.state_dict()["state"].items():
        assert all(torch.equal(mine[index][key], value) for key, value in entries.items())
    assert mine[0]["step"] == 5


def test_dividing_clips_as_torch_clips():
    one, other = model(), model()
    quick, plain = FusedStep(optimizer(one)), optimizer(other)
    for seed in range(20):
        gradients(one, seed)
        gradients(other, seed)
        found = quick.gradients()
        norm = total_norm(found)
        assert torch.equal(norm, torch.nn.utils.get_total_norm(found, foreach=True))
        torch.nn.utils.clip_grad_norm_(other.parameters(), 0.005)
        assert norm > 0.005, "nothing to clip: the test would show nothing"
        quick.step(found, divide=((norm + 1e-6) / 0.005).clamp(min=1), found_inf=None)
        plain.step()
        quick.clear()
        plain.zero_grad()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("warm", [False, True])
def test_a_step_with_found_inf_changes_nothing_and_does_not_count(warm):
    one = model()
    quick = FusedStep(optimizer(one))
    if warm:
        gradients(one, 0)
        quick.step(quick.gradients(), divide=None, found_inf=None)
        quick.clear()
    before = copy.deepcopy(one.state_dict())
    gradients(one, 1)
    quick.step(quick.gradients(), divide=None, found_inf=torch.ones(()))
    assert all(torch.equal(one.state_dict()[name], value) for name, value in before.items())
    assert all(float(s["step"]) == warm for s in quick._optimizer.state.values())


def test_a_parameter_without_a_gradient_is_left_to_the_optimizer():
    one = model()
    quick = FusedStep(optimizer(one))
    gradients(one, 0)
    assert len(quick.gradients()) == 4
    one[0].bias.grad = None
    assert quick.gradients() is None


class Own(torch.optim.AdamW):
    """Somebody's subclass may do anything in its step."""


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (lambda m: None, "not AdamW"),
        (lambda m: torch.optim.SGD(m.parameters(), lr=1), "not AdamW"),
        (lambda m: Own(m.parameters(), fused=True), "not AdamW"),
        (lambda m: optimizer(m, fused=False), "not fused"),
        (lambda m: optimizer(m, amsgrad=True), "amsgrad"),
        (lambda m: optimizer(m, maximize=True), "maximize"),
        (lambda m: optimizer(m, lr=torch.tensor(0.1)), "a tensor"),
        (lambda m: optimizer(m.to(torch.float64)[:2].append(nn.Linear(9, 3))), "several dtypes"),
    ],
)
def test_it_says_why_an_optimizer_makes_its_own_step(of, why):
    assert why in FusedStep.why_not(of(model()))


def test_hooks_are_not_passed_by():
    one = optimizer(model())
    assert FusedStep.why_not(one) is None
    one.register_step_pre_hook(lambda *_: None)
    assert "hooks" in FusedStep.why_not(one)


def test_the_hooks_of_all_optimizers_are_called_once_a_step():
    module = importlib.import_module("torch.optim.optimizer")
    quick, called = FusedStep(optimizer(net := model())), []
    handles = [
        module.register_optimizer_step_pre_hook(lambda of, *_: called.append(("pre", of))),
        module.register_optimizer_step_post_hook(lambda of, *_: called.append(("post", of))),
    ]
    try:
        for seed in range(3):
            gradients(net, seed)
            quick.step(quick.gradients(), divide=None, found_inf=None)
            quick.clear()
    finally:
        for handle in handles:
            handle.remove()
    assert called == [("pre", quick._optimizer), ("post", quick._optimizer)] * 3
