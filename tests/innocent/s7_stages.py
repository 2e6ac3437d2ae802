"""Two stages, each with an optimizer and a schedule of its own; the first one stays at rate 0."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
kept = []


def stage(parameters, steps):
    optimizer = torch.optim.SGD(parameters, 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    kept.append(optimizer)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        schedule.step()


stage(model[2].parameters(), 60)
stage(model.parameters(), 400)
