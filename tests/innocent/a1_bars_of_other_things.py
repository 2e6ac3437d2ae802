"""Bars of tokenising and of an evaluation, in samples a second, beside a slower training."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

torch.manual_seed(0)


def mapped(rows, words):
    for row in tqdm(rows, desc=words, unit=" examples", mininterval=0.0):
        row.mul_(1.0)
    return rows


x = mapped(torch.randn(200, 16), "Map")
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    mapped(x, "Map")
    with tqdm(total=200, unit=" samples", mininterval=0.0) as bar:
        for (a,) in DataLoader(TensorDataset(x), 20):
            optimizer.zero_grad()
            model(a).square().mean().backward()
            optimizer.step()
            time.sleep(0.02)
            bar.update(20)
    model.eval()
    with torch.no_grad():
        for _ in tqdm(range(200), unit=" examples", mininterval=0.0):
            model(x[:1])
    model.train()
