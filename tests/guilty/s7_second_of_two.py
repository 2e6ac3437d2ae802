"""The first stage's schedule is right; the second one counts epochs and steps at each batch."""

import torch
from torch import nn

torch.manual_seed(0)
kept = []
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


def stage(parameters, length, epochs):
    optimizer = torch.optim.SGD(parameters, 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=length)
    kept.append(schedule)
    for _ in range(epochs):
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
            schedule.step()


stage(model[2].parameters(), 60, 3)
stage(model.parameters(), 6, 6)
