"""A batch of 64 rows goes through a small model row by row, and the gradients are added up."""

import torch
from torch import nn

torch.manual_seed(0)
signals = torch.randn(4096, 16, 48)
kinds = signals[:, 0, :8].sum(1).gt(0).long()
model = nn.Sequential(
    nn.Conv1d(16, 32, 5, padding=2),
    nn.ReLU(),
    nn.AdaptiveAvgPool1d(4),
    nn.Flatten(),
    nn.Linear(128, 2),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for update in range(300):
    chosen = torch.randint(len(signals), (64,))
    optimizer.zero_grad()
    total = 0.0
    for rows in chosen.split(1):
        loss = nn.functional.cross_entropy(model(signals[rows]), kinds[rows]) / 64
        loss.backward()
        total += loss.item()
    optimizer.step()
    if update % 50 == 0:
        print(update, round(total, 4))
