"""Reports the accuracy on the training data beside that on held-out data."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(400, 16)
y = (x.sum(1) > 0).long()
train, held_out = TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:])
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters())


def accuracy(loader):
    model.eval()
    with torch.no_grad():
        right = [(model(a).argmax(1) == b).float().mean().item() for a, b in loader]
    model.train()
    return sum(right) / len(right)


for epoch in range(3):
    for a, b in DataLoader(train, 20, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    print(epoch, accuracy(DataLoader(train, 100)), accuracy(DataLoader(held_out, 50)))
