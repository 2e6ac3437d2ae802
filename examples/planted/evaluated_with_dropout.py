"""Planted: the model is validated in training mode, with dropout on (S17)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(6000, 24)
targets = inputs @ torch.randn(24, 1)
train = DataLoader(TensorDataset(inputs[:5000], targets[:5000]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(inputs[5000:], targets[5000:]), batch_size=50)
model = nn.Sequential(nn.Linear(24, 256), nn.Dropout(0.2), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def validate():
    with torch.no_grad():
        losses = [nn.functional.mse_loss(model(x), y) for x, y in valid]
    return torch.stack(losses).mean().item()


for epoch in range(8):
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f} valid {validate():.4f}")
