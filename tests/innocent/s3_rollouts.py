"""An agent acts for most of the time, without gradients and in training mode, between updates."""

import time

import torch
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
for _ in range(6):
    seen = []
    with torch.no_grad():
        for _ in range(40):
            state = torch.randn(16, 8)
            policy(state)
            time.sleep(0.002)  # the world takes its time
            seen.append(state)
    for state in seen[:4]:
        optimizer.zero_grad()
        policy(state).square().mean().backward()
        optimizer.step()
