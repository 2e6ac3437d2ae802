"""Planted for a GPU: a moving average of 400 tensors, one kernel after the other."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(200)]
model = nn.Sequential(*layers, nn.Linear(256, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(8, 4096, 256, device="cuda")
labels = inputs[..., :128].argmax(-1)

average = copy.deepcopy(model)

for _ in range(2000):
    for x, y in zip(inputs, labels):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, now in zip(average.parameters(), model.parameters()):  # FAULT: H15
                kept.mul_(0.999).add_(now, alpha=0.001)
