"""Planted: F.dropout without training= drops in the validation too (S18)."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(24, 256), nn.Linear(256, 1)

    def forward(self, x):
        hidden = F.dropout(F.relu(self.first(x)), 0.2)
        return self.second(hidden)


torch.manual_seed(0)
inputs = torch.randn(6000, 24)
targets = inputs @ torch.randn(24, 1)
train = DataLoader(TensorDataset(inputs[:5000], targets[:5000]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(inputs[5000:], targets[5000:]), batch_size=50)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def validate():
    model.eval()
    with torch.no_grad():
        losses = [F.mse_loss(model(x), y) for x, y in valid]
    model.train()
    return torch.stack(losses).mean().item()


for epoch in range(8):
    for x, y in train:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f} valid {validate():.4f}")
