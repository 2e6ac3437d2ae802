"""Planted: activation checkpointing on a small model, as a copied configuration has it (G19)."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Tower(nn.Module):
    """Twelve layers, each computed again in the backward pass."""

    def __init__(self, width: int = 256, depth: int = 12) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, C]."""
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


inputs, labels = torch.randn(4_096, 256), torch.randint(10, (4_096,))
model = Tower()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(150):
    rows = torch.randint(len(inputs), (128,))
    loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
