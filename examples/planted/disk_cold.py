"""Planted: the first epoch reads its file from the disk, the others from memory (D11)."""

import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROWS, WIDTH = 16_384, 4_096  # of 4 bytes: 256 MiB


class Rows(Dataset):
    """Rows of a file, read where they are asked for and not beyond."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_RANDOM)

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        raw = bytearray(os.pread(self.file, 4 * WIDTH, index * 4 * WIDTH))
        row = torch.frombuffer(raw, dtype=torch.float32)
        return row, (row[0] > 0).long()


torch.manual_seed(0)
with open("rows.raw", "wb") as file:
    rng = np.random.default_rng(0)
    for _ in range(ROWS // 1024):
        file.write(rng.standard_normal((1024, WIDTH), dtype=np.float32).tobytes())
    file.flush()
    os.fsync(file.fileno())  # as if the machine had just been started
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

loader = DataLoader(Rows("rows.raw"), batch_size=64, shuffle=True)
model = nn.Linear(WIDTH, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    for rows, labels in loader:
        loss = nn.functional.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
