"""Backward passes of one step through one graph, or through several."""

import pytest

TRAIN = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
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


@pytest.mark.parametrize(("body", "share"), [(ONE, None), (SEVERAL, 0.0), (SHARED, 1.0)])
def test_passes_through_the_same_graph_are_seen(observed, body, share):
    assert observed(TRAIN.format(body=body)).steps.shared_graph == share
