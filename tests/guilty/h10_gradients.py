"""Steps are left out here too, and the evaluation itself keeps graphs."""

# says: 3 of 3 evaluations

import time

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 1)

    def forward(self, x):
        time.sleep(0.01)
        return self.layer(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(3):
    for batch in range(20):
        loss = model(torch.randn(8, 16)).square().mean()
        if batch in (5, 6, 7):
            loss = loss + model(torch.randn(8, 16)).square().mean()
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    for _ in range(5):
        model(torch.randn(8, 16))
    model.train()
