"""Planted: rows that lie in memory are cut out one by one and stacked again (D4)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(40_000, 16), torch.randint(4, (40_000,)))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    total = 0.0
    for inputs, labels in DataLoader(rows, batch_size=256, shuffle=True):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"epoch {epoch}: loss {total / 157:.3f}")
