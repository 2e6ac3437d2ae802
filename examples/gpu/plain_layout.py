"""Planted for a GPU: convolutions in bfloat16 without channels_last."""

import torch
from torch import nn

torch.manual_seed(0)
layers, channels = [], 3
for wide in (64, 128, 256, 512):
    layers += [nn.Conv2d(channels, wide, 3, 1, 1), nn.BatchNorm2d(wide), nn.ReLU()]
    layers += [nn.MaxPool2d(2)]
    channels = wide
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
model = model.cuda()  # FAULT: G9
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
labels = torch.randint(10, (8, 128), device="cuda")
pictures = torch.randn(8, 128, 3, 128, 128, device="cuda") + 0.3 * labels[..., None, None, None]

for _ in range(300):
    for x, y in zip(pictures, labels):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
