"""The held-out rows were never taken out of the training data."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(300, 16)
y = (x.sum(1) > 0).long()
train, held_out = TensorDataset(x, y), TensorDataset(x[200:], y[200:])
model = nn.Linear(16, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    for a, b in DataLoader(train, 20, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for a, _ in DataLoader(held_out, 50):
            model(a)
    model.train()
