"""Planted: a moving average and a gradient norm, one parameter after the other (H15)."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
inputs, labels = torch.randn(2_048, 32), torch.randint(10, (2_048,))
layers = [layer for _ in range(24) for layer in (nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(32, 10))
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


@torch.no_grad()
def update_average(decay: float = 0.999) -> None:
    """Move the average towards the model."""
    for kept, now in zip(average.parameters(), model.parameters(), strict=True):
        kept.mul_(decay).add_(now, alpha=1 - decay)


for step in range(300):
    rows = torch.randint(len(inputs), (32,))
    loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    norm = sum(p.grad.norm() ** 2 for p in model.parameters() if p.grad is not None) ** 0.5
    optimizer.step()
    update_average()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}, gradient {norm.item():.3f}")
