"""Rows go into an LSTM without a dimension for the sequence: the batch is one sequence."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.randn(4096, 8)
targets = rows[:, :4].argmax(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        hidden, _ = self.lstm(x)
        return self.head(hidden)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(rows, targets), batch_size=64, shuffle=True)

for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
