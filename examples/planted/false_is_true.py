"""An option of type bool: whatever text it is given, it is True."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--dropout", type=bool, default=True)
options = parser.parse_args()

torch.manual_seed(0)
x = torch.randn(4096, 16)
y = x[:, :1] * 2 + x[:, 1:2]
layers = [nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 1)]
if options.dropout:
    layers.insert(2, nn.Dropout(0.5))
model = nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(300):
    chosen = torch.randint(len(x), (64,))
    loss = nn.functional.mse_loss(model(x[chosen]), y[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
