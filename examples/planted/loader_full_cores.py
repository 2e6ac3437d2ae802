"""Planted: two workers draw pictures on all cores, and the loop still waits (D7)."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    """Pictures [1, 96, 96] with blobs, drawn anew at each read; the label is their number."""

    def __len__(self):
        return 9_000

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        rows, columns = np.mgrid[0:96, 0:96]
        picture = np.zeros((96, 96), dtype=np.float32)
        count = rng.integers(1, 17)
        for _ in range(count):
            y, x, size = (*rng.uniform(8, 88, 2), rng.uniform(2, 6))
            picture += np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * size**2))
        return torch.from_numpy(picture)[None], int(count) - 1


torch.manual_seed(0)
torch.set_num_threads(1)
loader = DataLoader(Blobs(), batch_size=32, shuffle=True, num_workers=2)
model = nn.Sequential(nn.Conv2d(1, 8, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(4232, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (pictures, counts) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(pictures), counts)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
