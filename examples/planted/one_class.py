"""Planted: labels are read from a folder's name that is none: all are 0 (S13)."""

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Recordings in "dogs/0001.pt", with the label in the folder's name."""

    def __init__(self, paths):
        self.paths = paths
        self.features = torch.randn(len(paths), 40)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        label = int(self.paths[index].parent.name == "dog")
        return self.features[index], label


torch.manual_seed(0)
kinds = ("cats", "dogs")
data = Clips([Path("clips", kinds[i % 2], f"{i:05}.pt") for i in range(8000)])
model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(4):
    right = 0
    for batch, labels in DataLoader(data, batch_size=100, shuffle=True):
        logits = model(batch)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (logits.argmax(1) == labels).sum().item()
    print(f"epoch {epoch}: accuracy {right / len(data):.1%}")
