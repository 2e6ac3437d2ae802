"""A schedule of 42 steps in a run that ends by itself at its 252nd: a sixth, not an eighth."""

# says: ends after 17% of the run

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(168, 16)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 8)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=42)
done = 0
for _ in range(15):
    for a, b in loader:
        optimizer.zero_grad()
        (model(a) - b).square().mean().backward()
        optimizer.step()
        schedule.step()
    done += len(loader)
    if done >= 252:
        break
