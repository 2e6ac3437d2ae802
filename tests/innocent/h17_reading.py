"""The evaluation's data set filters its samples with NumPy; no metric is computed."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Sounds(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        sound = np.random.default_rng(index).standard_normal(60_000)
        return torch.tensor(np.convolve(sound, np.ones(300) / 300)[:16], dtype=torch.float32)


model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(3):
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x in DataLoader(Sounds(), 8):
            model(x)
    model.train()
