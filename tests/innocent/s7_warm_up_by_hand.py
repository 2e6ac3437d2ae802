"""One schedule for the warm-up and another one after it; the doctor stops soon after the change."""

# doctor --steps 60

import torch
from torch import nn

torch.manual_seed(0)
WARM, STEPS = 40, 400
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=WARM)
decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS - WARM)
average = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    schedule = warm_up if step < WARM else decay if step < 350 else average
    schedule.step()
