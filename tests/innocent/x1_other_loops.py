"""Loaders that are no plain `for`: one batch of each, two side by side, batches by a function."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
first, second = torch.randn(120, 16), torch.randn(90, 16)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def update(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def batches():
    while True:
        yield first[torch.randint(0, 120, (10,))]


one, other = (DataLoader(TensorDataset(x), 10, shuffle=True) for x in (first, second))
for _ in range(30):
    update(next(iter(one))[0])
for _ in range(3):
    for (x,), (z,) in zip(one, other, strict=False):
        update(torch.cat([x, z]))
for _, x in zip(range(40), batches(), strict=False):
    update(x)
