"""Goes on from a checkpoint: the schedule has 900 of its 1,000 steps behind it."""

import torch
from torch import nn

torch.manual_seed(0)


def built():
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)


*_, earlier = built()
state = {**earlier.state_dict(), "last_epoch": 900, "_step_count": 901}
model, optimizer, schedule = built()
schedule.load_state_dict(state)
for _ in range(900, 1000):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    schedule.step()
