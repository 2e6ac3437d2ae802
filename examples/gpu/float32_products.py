"""Planted for a GPU: large float32 products on a card with tensor cores."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(4)]
model = nn.Sequential(*layers, nn.Linear(4096, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(8, 4096, 4096, device="cuda")
labels = inputs[..., :128].argmax(-1)

for _ in range(400):
    for x, y in zip(inputs, labels):
        loss = nn.functional.cross_entropy(model(x), y)  # FAULT ANYWHERE: G1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
