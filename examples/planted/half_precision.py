"""Planted: float16 under autocast, and nothing scales the loss (G3)."""

import torch
from torch import nn

torch.manual_seed(0)
inputs, labels = torch.randn(2_048, 64), torch.randint(10, (2_048,))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for step in range(300):
    rows = torch.randint(len(inputs), (64,))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
