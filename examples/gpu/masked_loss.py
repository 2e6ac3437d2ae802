"""Planted for a GPU: a mask chooses rows, so the host waits to learn how many there are."""

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
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(x)
            kept = y > 0
            loss = nn.functional.cross_entropy(logits[kept], y[kept])  # FAULT: H3
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
