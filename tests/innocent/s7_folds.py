"""Four folds, each with a schedule of its own length; the doctor stops in the first one."""

# doctor --steps 30

import torch
from torch import nn

torch.manual_seed(0)
for _fold in range(4):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
    for _epoch in range(5):
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
            schedule.step()
