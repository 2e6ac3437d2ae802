"""Planted for a GPU: the sum of the losses keeps each loss and its graph."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(8)]
model = nn.Sequential(*layers, nn.Linear(2048, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(8, 8192, 2048, device="cuda")
labels = inputs[..., :128].argmax(-1)

for _ in range(250):
    total = 0
    for step in range(64):
        x, y = inputs[step % 8], labels[step % 8]
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss  # FAULT: G20
