"""Steps are left out here too, and the evaluation itself keeps graphs."""

# says: 3 of 3 evaluations

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 1)

    def forward(self, x):
        time.sleep(0.01)
        return self.layer(x)


loader = DataLoader(TensorDataset(torch.randn(160, 16)), 8)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(3):
    for batch, (x,) in enumerate(loader):
        loss = model(x).square().mean()
        if batch in (5, 6, 7):
            model(x + 0.1 * torch.randn(8, 16))
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    for _ in range(5):
        model(torch.randn(8, 16))
    model.train()
