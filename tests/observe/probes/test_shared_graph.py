"""Backward passes of one step through one graph, or through several."""

import pytest

TRAIN = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(8):
    optimizer.zero_grad()
    {body}
    optimizer.step()
"""
ONE = "model(torch.randn(4, 8)).square().mean().backward()"
SEVERAL = "for _ in range(3): " + ONE
SHARED = """hidden = model(torch.randn(4, 8))
    for n in range(3):
        hidden = hidden * 1.1
        hidden.square().mean().backward(retain_graph=True)"""
OTHER_INPUT = """x, t = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    u = model(torch.cat([x, t], 1))
    (du_dx,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    {again}
    (u.square() + du_dx.sum() + du_dt.sum()).mean().backward()"""
SAME_ROOT = OTHER_INPUT.format(
    again="(du_dt,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)"
).replace("u.sum(), x", "u, x, torch.ones_like(u)")
SECOND_ORDER = OTHER_INPUT.format(
    again="(du_dt,) = torch.autograd.grad(du_dx.square().sum(), x, create_graph=True)"
)


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        (ONE, 0.0, 0.0),
        (SEVERAL, 0.0, 0.0),
        (SHARED, 0.4, 0.7),
        (SAME_ROOT, 0.05, 0.5),
        (SECOND_ORDER, 0.0, 0.0),
    ],
)
def test_what_is_gone_through_again_is_counted(observed, body, low, high):
    steps = observed(TRAIN.format(body=body)).steps
    assert low <= steps.repeated_graph <= high
    assert [place.line for place in steps.repeated_places] == ([11] if high else [])
