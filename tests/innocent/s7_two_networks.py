"""A critic is stepped four times for each step of the generator; each has its own schedule."""

import torch
from torch import nn

torch.manual_seed(0)
STEPS = 60
make, judge = nn.Linear(4, 16), nn.Linear(16, 1)
of_judge = torch.optim.Adam(judge.parameters(), 1e-3)
of_make = torch.optim.Adam(make.parameters(), 1e-3)
schedules = [
    torch.optim.lr_scheduler.CosineAnnealingLR(of_judge, T_max=4 * STEPS),
    torch.optim.lr_scheduler.CosineAnnealingLR(of_make, T_max=STEPS),
]
for _ in range(STEPS):
    for _ in range(4):
        of_judge.zero_grad()
        judge(make(torch.randn(8, 4)).detach()).mean().backward()
        of_judge.step()
        schedules[0].step()
    of_make.zero_grad()
    judge(make(torch.randn(8, 4))).mean().neg().backward()
    of_make.step()
    schedules[1].step()
