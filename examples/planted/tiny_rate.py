"""The learning rate is in units of another optimizer: 90 updates on one batch change nothing."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(4000, 32)
labels = (inputs[:, 0] > 0).long()
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
with torch.no_grad():
    for parameter in model[2].parameters():
        parameter.mul_(0.1)
optimizer = torch.optim.SGD(model.parameters(), 1e-5)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
for epoch in range(12):
    for rows, answers in loader:
        loss = nn.functional.cross_entropy(model(rows), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
