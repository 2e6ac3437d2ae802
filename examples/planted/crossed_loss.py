"""A regression whose predictions are a column and whose targets are a row."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(4096, 16)
y = x[:, 0] * 2 + x[:, 1]
model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(600):
    chosen = torch.randint(len(x), (64,))
    loss = ((model(x[chosen]) - y[chosen]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
