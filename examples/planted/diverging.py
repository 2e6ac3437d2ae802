"""Planted: a learning rate that is too large makes the loss infinite, then NaN (S12)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(12_000, 16)
rows = TensorDataset(inputs, 20 * inputs.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

for epoch in range(3):
    for batch, targets in DataLoader(rows, batch_size=64, shuffle=True):
        loss = nn.functional.mse_loss(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
torch.save(model.state_dict(), "model.pt")
