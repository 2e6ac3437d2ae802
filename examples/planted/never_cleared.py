"""Planted: the gradients of a step are never cleared (S15)."""

import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn(4000, 24)
targets = inputs @ torch.randn(24, 1)
model = nn.Sequential(nn.Linear(24, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(12):
    for rows in torch.randperm(len(inputs)).split(100):
        loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
