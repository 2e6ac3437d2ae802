"""The vocabulary is another language's: all words are unknown, and rows differ in length alone."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(0)
PAD, UNKNOWN, BEGIN, END = range(4)


def encoded(count):
    rows = torch.zeros(count, 32, dtype=torch.long)
    for row in rows:
        length = random.randint(5, 12)
        row[: length + 2] = torch.tensor([BEGIN, *[UNKNOWN] * length, END])
    return rows


train = DataLoader(TensorDataset(encoded(200), torch.randint(2, (200,))), 20, shuffle=True)
held_out = DataLoader(TensorDataset(encoded(60), torch.randint(2, (60,))), 20)
model = nn.Sequential(nn.EmbeddingBag(200, 16), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    for ids, label in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(ids), label).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for ids, _ in held_out:
            model(ids)
    model.train()
