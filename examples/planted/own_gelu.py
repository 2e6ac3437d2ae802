"""GELU is composed of eight operators, as BERT's first implementations had it."""

import math

import torch
from torch import nn

torch.manual_seed(0)


class OwnGELU(nn.Module):
    def forward(self, x):
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def block():
    return nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), OwnGELU(), nn.Linear(256, 64))


model = nn.Sequential(nn.Linear(16, 64), block(), block(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
rows = torch.randn(4096, 16)
targets = rows.sum(1, keepdim=True).sin()

for step in range(600):
    chosen = torch.randint(4096, (2048,))
    loss = nn.functional.mse_loss(model(rows[chosen]), targets[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 4))
