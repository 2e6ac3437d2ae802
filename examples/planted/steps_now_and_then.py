"""Planted: after every 20th step the square weights are made orthogonal (H14)."""

import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn(20_000, 64)
targets = torch.sin(inputs[:, :8].sum(1, keepdim=True))
square = [nn.Linear(384, 384) for _ in range(3)]
model = nn.Sequential(nn.Linear(64, 384), *square, nn.Tanh(), nn.Linear(384, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def make_orthogonal(layers):
    """Replace each weight by the orthogonal matrix next to it."""
    for layer in layers:
        left, _, right = torch.linalg.svd(layer.weight.detach())
        layer.weight.data = left @ right


for step in range(300):
    rows = torch.randint(len(inputs), (64,))
    loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        make_orthogonal(square)
        print(f"step {step}: loss {loss.item():.4f}")
