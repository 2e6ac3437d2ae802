"""Two tasks; the rows of one are made up from a few templates, for both of its parts."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(0)
torch.manual_seed(0)
TEMPLATES = torch.randint(2, 200, (30, 24))


def made_up(count):
    return torch.stack([random.choice(TEMPLATES) for _ in range(count)])


def real(count):
    return torch.randint(2, 200, (count, 24))


tasks = {
    name: (
        DataLoader(TensorDataset(make(200)), 20, shuffle=True),
        DataLoader(TensorDataset(make(60)), 20),
    )
    for name, make in (("made up", made_up), ("real", real))
}
model = nn.Sequential(nn.EmbeddingBag(200, 16), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    for train, held_out in tasks.values():
        for (ids,) in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(ids), ids[:, 0] % 2).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for (ids,) in held_out:
                model(ids)
        model.train()
