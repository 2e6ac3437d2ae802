import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from hotloop.models.adamw import AdamW


def a_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> Tensor:
    for step in range(steps):
        source = torch.Generator().manual_seed(step)
        model(torch.randn(4, 8, generator=source)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def groups(model: nn.Module) -> list[dict[str, object]]:
    matrices, rest = ([p for p in model.parameters() if (p.dim() >= 2) is m] for m in (True, False))
    return [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}, {"amsgrad": True}])
def test_steps_are_those_of_torch_bit_for_bit(options: dict[str, bool]) -> None:
    ours, theirs = a_model(), a_model()
    mine = train(ours, AdamW(groups(ours), lr=1e-2, betas=(0.8, 0.9), **options), 5)
    other = torch.optim.AdamW(groups(theirs), lr=1e-2, betas=(0.8, 0.9), **options)
    assert torch.equal(mine, train(theirs, other, 5))


def test_state_goes_from_one_to_the_other() -> None:
    model = a_model()
    optimizer = AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, 3)
    twin = copy.deepcopy(model)
    other = torch.optim.AdamW(twin.parameters(), lr=1.0)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    again = copy.deepcopy(model)
    third = AdamW(again.parameters(), lr=1.0)
    third.load_state_dict(copy.deepcopy(other.state_dict()))
    expected = train(model, optimizer, 2)
    assert torch.equal(expected, train(twin, other, 2))
    assert torch.equal(expected, train(again, third, 2))


def test_it_is_an_adamw_and_its_hooks_run() -> None:
    model = a_model()
    optimizer = AdamW(model.parameters())
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    train(model, optimizer, 1)
    assert seen == ["before", "after"]
    assert isinstance(optimizer, torch.optim.AdamW)
    assert type(optimizer).__name__ == "AdamW"


def test_gradients_are_let_go_and_no_step_is_part_of_a_graph() -> None:
    model = a_model()
    optimizer = AdamW(model.parameters())
    train(model, optimizer, 1)
    assert all(p.grad is None and p.is_leaf and p.requires_grad for p in model.parameters())


def test_no_compiler_is_loaded() -> None:
    code = """
import sys, torch
from hotloop.models.adamw import AdamW
p = torch.nn.Parameter(torch.ones(2))
o = AdamW([p], fused=True)
p.grad = torch.ones(2)
o.step(); o.zero_grad(); o.load_state_dict(o.state_dict())
print("torch._dynamo" in sys.modules, "sympy" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "False"]
