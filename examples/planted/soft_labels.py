"""Planted: the loss is given the smoothed labels first and the logits second (S9)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
classes, smoothing = 10, 0.1
inputs = torch.randn(20_000, 32)
rows = TensorDataset(inputs, inputs[:, :classes].argmax(1))
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, classes))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
criterion = nn.CrossEntropyLoss()

for epoch in range(4):
    for batch, labels in DataLoader(rows, batch_size=128, shuffle=True):
        targets = nn.functional.one_hot(labels, classes) * (1 - smoothing) + smoothing / classes
        logits = model(batch)
        loss = criterion(targets, logits)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
