"""Planted: two workers read large pictures that are only on the disk (D10)."""

import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PICTURES, SIZE = 1_600, 256 << 10  # bytes each: 400 MiB


class Pictures(Dataset):
    """Pictures [SIZE] of a raw file, and whether the first byte is a large one."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return PICTURES

    def __getitem__(self, index):
        picture = np.fromfile(self.path, dtype=np.uint8, count=SIZE, offset=index * SIZE)
        return torch.from_numpy(picture), int(picture[0] > 127)


torch.manual_seed(0)
noise = np.random.default_rng(0)
with open("pictures.raw", "wb") as file:
    for _ in range(PICTURES):
        file.write(noise.bytes(SIZE))
    file.flush()
    os.fsync(file.fileno())

loader = DataLoader(Pictures("pictures.raw"), batch_size=16, shuffle=True, num_workers=2)
model = nn.Linear(256, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(6):
    with open("pictures.raw", "rb") as file:  # as if the memory were smaller than the file
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    for pictures, labels in loader:
        loss = nn.functional.cross_entropy(model(pictures[:, ::1024] / 255), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
