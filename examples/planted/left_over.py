"""Planted: what helped to find an error is still there (H5, H6)."""

import gc

import torch
from torch import nn

torch.manual_seed(0)
inputs, labels = torch.randn(2_048, 64), torch.randint(10, (2_048,))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def train_step(rows: torch.Tensor) -> float:
    """Make one step; return its loss."""
    loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gc.collect()  # it ran out of memory once
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return loss.item()


with torch.autograd.detect_anomaly():
    for step in range(30):
        value = train_step(torch.randint(len(inputs), (64,)))
        if step % 10 == 0:
            print(f"step {step}: loss {value:.3f}")
