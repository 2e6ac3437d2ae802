"""Planted: the sum of the losses keeps each step's graph; evaluation builds graphs (G20, H10)."""

import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn(4_096, 32)
labels = inputs[:, :1] ** 2 + 0.1 * torch.randn(4_096, 1)
model = nn.Sequential(
    nn.Linear(32, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def evaluate() -> float:
    """Return the loss on the rows that are not trained on."""
    model.eval()
    total = 0.0
    for first in range(2_048, 4_096, 128):
        part = slice(first, first + 128)
        total += nn.functional.mse_loss(model(inputs[part]), labels[part]).item()
    model.train()
    return total / 16


for epoch in range(20):
    total_loss = 0
    for first in range(0, 2_048, 128):
        part = slice(first, first + 128)
        loss = nn.functional.mse_loss(model(inputs[part]), labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss
    print(f"epoch {epoch}: loss {total_loss / 16:.4f}, on other rows {evaluate():.4f}")
