"""A metric of the project's own is computed with NumPy after each step."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def best_f1(scores):
    found = 0.0
    for edge in np.linspace(-1, 1, 2_000):
        found = max(found, float((scores > edge).mean()))
    return found


for _ in range(60):
    optimizer.zero_grad()
    output = model(torch.randn(8_192, 16))
    output.square().mean().backward()
    optimizer.step()
    best_f1(output.detach().numpy())
