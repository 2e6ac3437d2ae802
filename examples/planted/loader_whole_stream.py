"""Planted: two workers read one stream, and each of them reads all of it (D25)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Readings(IterableDataset):
    """Windows [32] of a long signal, and the value that comes next."""

    def __init__(self, length):
        steps = torch.arange(length) / 7
        self.signal = torch.sin(steps) + 0.3 * torch.sin(3.1 * steps)

    def __iter__(self):
        for start in range(len(self.signal) - 33):
            yield self.signal[start : start + 32], self.signal[start + 32]


torch.manual_seed(0)
loader = DataLoader(Readings(8_000), batch_size=64, num_workers=2)
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for epoch in range(3):
    for windows, following in loader:
        loss = nn.functional.mse_loss(model(windows).squeeze(1), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
