"""10 batches an epoch without a loader, 4 of them make a step: 2 are left over."""

# says: 2 micro batches at the end of an epoch

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
accumulation = 4
data = torch.randn(10, 8, 16)
for _ in range(3):
    optimizer.zero_grad()
    for i, x in enumerate(data):
        loss = model(x).square().mean() / accumulation
        loss.backward()
        if (i + 1) % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
