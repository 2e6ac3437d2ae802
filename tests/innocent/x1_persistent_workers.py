"""Forty epochs through one set of worker processes: each epoch is one."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(256, 16)
    y = (x.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(x, y)
    loader = DataLoader(data, 32, shuffle=True, num_workers=1, persistent_workers=True)
    for _ in range(40):
        for a, b in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
