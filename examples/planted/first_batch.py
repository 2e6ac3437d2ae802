"""next(iter(loader)) in a loop: each step trains on the first batch of an unshuffled loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.randn(4096, 16)
targets = (rows[:, 0] > 0).long()
loader = DataLoader(TensorDataset(rows, targets), batch_size=64)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(3):
    for _ in range(len(loader)):
        x, y = next(iter(loader))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
