"""Data from numpy are float64, and the model is cast to their type."""

import numpy
import torch
from torch import nn

torch.manual_seed(0)
panel = torch.from_numpy(numpy.random.default_rng(0).normal(size=(4096, 256)))
target = panel[:, :8].sum(1, keepdim=True)
model = nn.Sequential(
    nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 1)
)
model.to(panel.dtype)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(800):
    chosen = torch.randint(len(panel), (256,))
    loss = nn.functional.mse_loss(model(panel[chosen]), target[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
