"""Planted: four processes hand over tensors from memory, in tiny epochs (D3, D5, D8, D26)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(2_000, 16)
labels = (inputs.sum(1) > 0).long()
loader = DataLoader(TensorDataset(inputs, labels), batch_size=100, shuffle=True, num_workers=4)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for epoch in range(12):
    total = 0.0
    for batch, label in loader:
        loss = nn.functional.cross_entropy(model(batch), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.3f}")
