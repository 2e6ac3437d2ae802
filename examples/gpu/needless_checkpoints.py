"""Planted for a GPU: activations are computed again, and nine tenths of the memory are free."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(8))
        self.head = nn.Linear(2048, 128)

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False).relu()  # FAULT: G19
        return self.head(x)


model = Tower().cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
inputs = torch.randn(8, 8192, 2048, device="cuda")
labels = inputs[..., :128].argmax(-1)

for _ in range(2000):
    for x, y in zip(inputs, labels):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
