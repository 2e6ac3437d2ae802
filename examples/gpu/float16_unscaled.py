"""Planted for a GPU: float16 under autocast, and nothing scales the loss."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(8)]
model = nn.Sequential(*layers, nn.Linear(2048, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(8, 8192, 2048, device="cuda")
labels = inputs[..., :128].argmax(-1)

for _ in range(2000):
    for x, y in zip(inputs, labels):
        with torch.autocast("cuda", torch.float16):  # FAULT: G3
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
