"""Planted: the derivatives of one output by two inputs are made in two passes (H21)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()
)
head = nn.Linear(64, 1)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)
position = torch.rand(2000, 1).requires_grad_()
time = torch.rand(2000, 1).requires_grad_()

for step in range(400):
    optimizer.zero_grad()
    height = head(model(torch.cat([position, time], 1)))
    ones = torch.ones_like(height)
    slope = torch.autograd.grad(height, position, ones, create_graph=True)[0]
    speed = torch.autograd.grad(height, time, ones, create_graph=True)[0]
    loss = (speed + height * slope).square().mean() + height.square().mean()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.5f}")
