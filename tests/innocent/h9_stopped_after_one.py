"""An evaluation every 100 steps; the doctor stops soon after the first one."""

# doctor --steps 110

import time

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1, 2001):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    if step % 100 == 0:
        model.eval()
        with torch.no_grad():
            for _ in range(10):
                model(torch.randn(8, 16))
                time.sleep(0.05)
        model.train()
