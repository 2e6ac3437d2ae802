"""Planted for a GPU: convolutions in float32 without channels_last or autocast."""

import torch
from torch import nn

torch.manual_seed(0)
layers, channels = [], 3
for wide in (64, 128, 256, 512):
    layers += [nn.Conv2d(channels, wide, 3, 1, 1), nn.BatchNorm2d(wide), nn.ReLU()]
    layers += [nn.MaxPool2d(2)]
    channels = wide
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
labels = torch.randint(10, (8, 128), device="cuda")
pictures = torch.randn(8, 128, 3, 128, 128, device="cuda") + 0.3 * labels[..., None, None, None]

for _ in range(300):
    for x, y in zip(pictures, labels):
        loss = nn.functional.cross_entropy(model(x), y)  # FAULT ANYWHERE: G1 G2 G9
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
