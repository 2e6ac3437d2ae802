"""One figure is far off, that of the step whose clock began late; the others are right."""

import time

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters())
began = time.time()
for step in range(60):
    x = torch.randn(32, 16)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    time.sleep(0.01)
    if step % 5 == 0:
        took = time.time() - began
        speed = (32 if step == 0 else 5 * 32) / took
        print(f"{speed if step else 100 * speed:,.0f} samples/s")
        began = time.time()
