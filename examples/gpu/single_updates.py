"""Planted for a GPU: Adam updates 400 tensors one after another."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(200)], nn.Linear(256, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), foreach=False)  # FAULT: G7
inputs = torch.randn(16, 4096, 256, device="cuda")
labels = inputs[..., :10].argmax(-1)

for _ in range(200):
    for x, y in zip(inputs, labels):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
