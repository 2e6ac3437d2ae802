"""Planted: eight batches of each worker fill a /dev/shm of 64 MB, Docker's default (D21)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Pictures [3, 64, 64] with noise, and the side that is brighter."""

    def __len__(self):
        return 5_600

    def __getitem__(self, index):
        picture = torch.randn(3, 64, 64, generator=torch.Generator().manual_seed(index))
        side = index % 2
        picture[:, :, 32 * side : 32 * side + 32] += 0.5
        return picture, side


torch.manual_seed(0)
loader = DataLoader(Pictures(), batch_size=70, shuffle=True, num_workers=2, prefetch_factor=8)
model = nn.Sequential(nn.Conv2d(3, 24, 7, stride=2), nn.ReLU(), nn.Conv2d(24, 32, 5, stride=2))
model.extend([nn.ReLU(), nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten(), nn.Linear(64, 2)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (pictures, sides) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(pictures), sides)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
