"""A variational autoencoder of striped tiles: noise in forward, two losses, pictures written.

Follows pytorch/examples vae/main.py @ 0a8329cff339f4195f4c893780c18caaa51ee732 (BSD-3-Clause)
in which parts of PyTorch it uses and in which order; the code is ours. Runs at module level.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader

SIDE, LATENT, EPOCHS = 10, 4, 3
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "out")

torch.manual_seed(5)


def stripes(count: int) -> torch.Tensor:
    """Return tiles of sine stripes in [0, 1], shape [count, SIDE * SIDE]."""
    angle, period, phase = torch.rand(3, count, 1, 1)
    across = torch.arange(SIDE).view(1, 1, SIDE) * torch.cos(3 * angle)
    down = torch.arange(SIDE).view(1, SIDE, 1) * torch.sin(3 * angle)
    tile = torch.sin((across + down) / (0.5 + period) + 6 * phase)
    return (0.5 + 0.5 * tile).flatten(1)


class StripesVae(nn.Module):
    """Mean and log variance from one head, a picture from one draw."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(SIDE * SIDE, 64)
        self.head = nn.Linear(64, 2 * LATENT)
        self.picture = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, SIDE * SIDE))

    def forward(self, tiles):
        mean, log_variance = self.head(self.body(tiles).relu()).chunk(2, dim=1)
        draw = torch.randn_like(mean)
        return self.picture(mean + draw * (log_variance / 2).exp()), mean, log_variance


def bound(tiles, logits, mean, log_variance):
    fit = binary_cross_entropy_with_logits(logits, tiles, reduction="sum")
    spread = (mean**2 + log_variance.exp() - 1 - log_variance).sum() / 2
    return fit + spread


def write_pgm(path: Path, logits: torch.Tensor) -> None:
    pixels = (logits.sigmoid() * 255).to(torch.uint8).view(-1, SIDE)
    header = f"P5 {SIDE} {len(pixels)} 255\n".encode()
    path.write_bytes(header + pixels.numpy().tobytes())


train = DataLoader(stripes(1024), batch_size=64, shuffle=True)
held_out = DataLoader(stripes(128), batch_size=64, shuffle=True)
model = StripesVae()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
OUT.mkdir(exist_ok=True)

for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for tiles in train:
        optimizer.zero_grad()
        loss = bound(tiles, *model(tiles))
        loss.backward()
        total += loss.item()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        unseen = sum(bound(tiles, *model(tiles)).item() for tiles in held_out)
        write_pgm(OUT / f"draws-{epoch}.pgm", model.picture(torch.randn(6, LATENT)))
    print(f"epoch {epoch}: {total / 1024:.5f} a tile, held out {unseen / 128:.5f}")

torch.save(model.state_dict(), OUT / "vae.pt")
