"""Planted for a GPU: the host cannot keep up; next to that, reading each loss costs little."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(24)], nn.Linear(512, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(64, 256, 512, device="cuda")
labels = inputs[..., :10].argmax(-1)
total = 0.0

for _ in range(1500):
    for x, y in zip(inputs, labels):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)  # FAULT ANYWHERE: H1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
