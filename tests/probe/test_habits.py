"""What a script does around its steps."""

import pytest

START = """
import random
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
"""

SEEDED = """
for step in range(8):
    {seed}
    optimizer.zero_grad(set_to_none={to_none})
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
"""


def test_seeds_are_counted_after_the_first_step(observed):
    text = START + SEEDED.format(seed="torch.manual_seed(3); random.seed(3)", to_none=True)
    process = observed(text).process
    assert process.seeds_in_step == 14  # of 16, those before the first step are none
    assert len(process.seed_places) == 1


@pytest.mark.parametrize("to_none", [True, False])
def test_how_gradients_are_zeroed_is_kept(observed, to_none):
    [optimizer] = observed(START + SEEDED.format(seed="pass", to_none=to_none)).optimizers
    assert (optimizer.zero_grad, optimizer.zeroed_to_none) == (8, to_none)


def test_a_models_zero_grad_counts_too(observed):
    text = (START + SEEDED.format(seed="pass", to_none=True)).replace(
        "optimizer.zero_grad(set_to_none=True)", "model.zero_grad()"
    )
    [optimizer] = observed(text).optimizers
    assert (optimizer.zero_grad, optimizer.zeroed_to_none) == (8, True)


SCALED = """
scaler = torch.amp.GradScaler("cpu")
for step in range(8):
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.randn(4, 8)).square().mean() * (float("inf") if step == 3 else 1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def test_a_scaler_is_counted_with_the_steps_it_left_out(observed):
    case = observed(START + SCALED)
    [scaler] = case.scalers
    assert (scaler.scaled, scaler.steps, scaler.skipped, scaler.unscaled) == (8, 8, 1, 0)
    assert scaler.autocast == "bfloat16"
    assert scaler.scale == 2.0**15  # 2^16, halved once
    assert case.process.autocast == ("cpu bfloat16",)
    assert case.process.backward_in_autocast is False


def test_backward_inside_autocast_is_seen(observed):
    text = """
for step in range(8):
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
"""
    assert observed(START + text).process.backward_in_autocast is True


@pytest.mark.parametrize(("rate", "lost"), [(1e-7, True), (10.0, False)])
def test_updates_of_bfloat16_weights_are_in_units_of_their_spacing(observed, rate, lost):
    text = f"""
model = nn.Linear(8, 8).to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), {rate})
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(4, 8, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
"""
    updates = observed(START + text).optimizers[0].updates
    assert len(updates) >= 5
    assert all((update < 0.5) is lost for update in updates)


def test_updates_of_float32_weights_are_not_looked_at(observed):
    [optimizer] = observed(START + SEEDED.format(seed="pass", to_none=True)).optimizers
    assert optimizer.updates == ()
