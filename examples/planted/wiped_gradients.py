"""Planted: gradients are zeroed at each of four micro batches, and the loss is not divided (S5)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accumulation_steps = 4
inputs = torch.randn(12_800, 64)
rows = TensorDataset(inputs, inputs[:, :8].argmax(1))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for epoch in range(4):
    total = 0.0
    for i, (batch, labels) in enumerate(DataLoader(rows, batch_size=32, shuffle=True)):
        optimizer.zero_grad()
        loss = criterion(model(batch), labels)
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / (i + 1):.3f}")
