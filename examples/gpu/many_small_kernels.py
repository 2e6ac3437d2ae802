"""Planted for a GPU: a step of some 1,500 small kernels, which the host cannot launch in time."""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(128), nn.Linear(128, 128)

    def forward(self, x):
        return x + nn.functional.silu(self.layer(self.norm(x)))


model = nn.Sequential(*[Block() for _ in range(80)], nn.Linear(128, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(64, 32, 128, device="cuda")
labels = inputs[..., :10].argmax(-1)

for _ in range(400):
    for x, y in zip(inputs, labels):
        loss = nn.functional.cross_entropy(model(x), y)  # FAULT ANYWHERE: H1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
