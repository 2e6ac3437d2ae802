"""Planted: the worker keeps up, but one read in 400 waits for a busy file server (D19)."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    """Vectors [64] and their labels, from a server that answers late now and then."""

    def __init__(self, count):
        self.vectors = torch.randn(count, 64)
        self.late = torch.rand(count) < 1 / 400

    def __len__(self):
        return len(self.vectors)

    def __getitem__(self, index):
        if self.late[index]:
            time.sleep(0.25)
        return self.vectors[index], int(self.vectors[index].sum() > 0)


torch.manual_seed(0)
loader = DataLoader(Remote(8_000), batch_size=32, shuffle=True, num_workers=1)
model = nn.Sequential(nn.Linear(64, 2560), nn.ReLU(), nn.Linear(2560, 2560), nn.ReLU())
model.append(nn.Linear(2560, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for step, (vectors, labels) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(vectors), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
