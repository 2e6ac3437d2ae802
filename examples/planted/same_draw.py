"""Planted: a sampler of balanced batches begins with the same seed in each epoch (D31)."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, ROWS = 6, 400


class Balanced:
    """Batches with as many rows of each class."""

    def __init__(self, kinds, each, batches, seed=0):
        self.rows = [[i for i, kind in enumerate(kinds) if kind == k] for k in range(CLASSES)]
        self.each, self.batches, self.seed = each, batches, seed

    def __len__(self):
        return self.batches

    def __iter__(self):
        rng = random.Random(self.seed)
        for _ in range(self.batches):
            yield [row for rows in self.rows for row in rng.sample(rows, self.each)]


torch.manual_seed(0)
kinds = torch.arange(CLASSES).repeat(ROWS)
inputs = torch.randn(CLASSES, 64)[kinds] + torch.randn(len(kinds), 64)
loader = DataLoader(
    TensorDataset(inputs, kinds), batch_sampler=Balanced(kinds.tolist(), each=8, batches=30)
)
model = nn.Sequential(
    nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 6)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(25):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
