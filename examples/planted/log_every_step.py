"""Planted: each step draws the losses so far as a picture (H7)."""

import matplotlib
import torch
from torch import nn

matplotlib.use("Agg")
import matplotlib.pyplot as plt

torch.manual_seed(0)
inputs = torch.randn(20_000, 64)
targets = torch.sin(inputs[:, :8].sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
model.append(nn.Linear(256, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

losses = []
for _ in range(60):
    rows = torch.randint(len(inputs), (2048,))
    loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    figure, axes = plt.subplots()
    axes.plot(losses)
    axes.set_xlabel("step")
    figure.savefig("losses.png")
    plt.close(figure)
