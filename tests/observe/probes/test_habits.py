"""What a script does around its steps."""

import pytest

from hotloop.rules.parameters import p4_low_precision_update

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


NORMED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.LayerNorm(64), nn.LayerNorm(64)
        self.linear = nn.Linear(64, 64, bias=False)
        for norm in (self.first, self.last):
            nn.init.constant_(norm.weight, 1e-3)
            nn.init.constant_(norm.bias, 1e-3)

    def forward(self, x):
        return self.last(self.linear(self.first(x)))

model = Net().to(torch.bfloat16)
optimizer = torch.optim.{optimizer}
for step in range(40):
    x = torch.randn(16, 64, dtype=torch.bfloat16)
    optimizer.zero_grad()
    (model(x) - x).float().square().mean().backward()
    optimizer.step()
"""
ADAMW = "AdamW(model.parameters(), lr=3e-5, weight_decay=0)"


def test_norms_whose_updates_fit_do_not_outvote_a_matrix_whose_updates_are_lost(observed):
    case = observed(START + NORMED.format(optimizer=ADAMW))
    [optimizer] = case.optimizers
    [lost] = optimizer.lost
    assert (lost.dtype, lost.numbers) == ("bfloat16", 64 * 64 + 4 * 64)
    assert lost.share > 0.8
    assert lost.never > 0.8
    finding = p4_low_precision_update.RULE.judge(case)
    assert finding is not None
    assert finding.severity == "critical"


def test_each_dtype_is_weighed_by_itself(observed):
    text = NORMED.replace(
        "model = Net().to(torch.bfloat16)",
        "model = Net().to(torch.bfloat16)\n"
        "half = nn.Parameter(torch.full((64,), 1e-3, dtype=torch.float16))",
    ).replace("(model(x) - x)", "(model(x) - x + half)")
    both = "AdamW([*model.parameters(), half], lr=3e-5, eps=1e-4, weight_decay=0)"
    case = observed(START + text.format(optimizer=both))
    lost = {each.dtype: each for each in case.optimizers[0].lost}
    assert lost["bfloat16"].share > 0.8
    assert lost["float16"].share < 0.2
    finding = p4_low_precision_update.RULE.judge(case)
    assert finding is not None
    assert "bfloat16 weights" in finding.claim


KEEPS_THE_REST = """
class Compensated(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, dict(lr=3e-5))

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            rest = self.state[p].setdefault("rest", torch.zeros_like(p, dtype=torch.float32))
            exact = p.float() + rest - 3e-5 * p.grad.float().sign()
            p.copy_(exact)
            rest.copy_(exact - p.float())
"""


def test_an_optimizer_that_keeps_the_rest_loses_nothing_whatever_its_name(observed):
    text = NORMED.replace("torch.optim.{optimizer}", "Compensated(model.parameters())")
    case = observed(START + KEEPS_THE_REST + text.replace("range(40)", "range(400)"))
    [lost] = case.optimizers[0].lost
    assert lost.share > 0.5
    assert lost.never < 0.5
    assert p4_low_precision_update.RULE.judge(case) is None


def test_updates_during_a_warm_up_are_a_note(observed):
    text = NORMED.format(optimizer=ADAMW).replace(
        "    optimizer.step()",
        "    optimizer.param_groups[0]['lr'] = 1e-6 * (step + 1)\n    optimizer.step()",
    )
    finding = p4_low_precision_update.RULE.judge(observed(START + text))
    assert finding is not None
    assert finding.severity == "note"


def test_updates_of_float32_weights_are_not_looked_at(observed):
    [optimizer] = observed(START + SEEDED.format(seed="pass", to_none=True)).optimizers
    assert optimizer.updates == ()
