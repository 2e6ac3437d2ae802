"""Planted: an integer division makes the learning rate of a warm-up 0 for all steps (S11)."""

import torch
from torch import nn

torch.manual_seed(0)
warmup = 2000
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step // warmup))
inputs = torch.randn(20_000, 32)
labels = inputs[:, :10].argmax(1)

for step in range(1500):
    chosen = torch.randint(len(inputs), (128,))
    loss = nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 300 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
