"""Planted: nothing but large matrix products, near what the machine can do (G32)."""

import torch
from torch import nn

torch.manual_seed(0)
inputs, labels = torch.randn(1_024, 1_024), torch.randint(10, (1_024,))
model = nn.Sequential(
    nn.Linear(1_024, 1_024), nn.ReLU(), nn.Linear(1_024, 1_024), nn.ReLU(), nn.Linear(1_024, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for _ in range(30):
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
