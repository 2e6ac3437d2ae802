"""VQ autoencoder for short synthetic waveforms."""

import argparse
import math
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_waves(n, length, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, length)
    waves = torch.zeros(n, length)
    for _ in range(3):
        freq = 2 + 14 * torch.rand(n, 1, generator=g)
        phase = 2 * math.pi * torch.rand(n, 1, generator=g)
        amp = torch.rand(n, 1, generator=g)
        waves += amp * torch.sin(2 * math.pi * freq * t + phase)
    waves += 0.02 * torch.randn(n, length, generator=g)
    return waves.unsqueeze(1)


class Quantizer(nn.Module):
    def __init__(self, num_codes, dim, beta=0.25):
        super().__init__()
        self.num_codes = num_codes
        self.codebook = nn.Embedding(num_codes, dim)
        self.beta = beta
        self.started = False

    def forward(self, z):
        flat = z.transpose(1, 2).reshape(-1, z.size(1))
        if self.training and not self.started:
            with torch.no_grad():
                self.codebook.weight.copy_(flat[torch.randperm(len(flat))[: self.num_codes]])
            self.started = True
        codes = self.codebook.weight
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ codes.t() + codes.pow(2).sum(1)
        idx = dist.argmin(dim=1)
        q = self.codebook(idx).view(z.size(0), z.size(2), -1).transpose(1, 2)
        loss = F.mse_loss(q, z.detach()) + self.beta * F.mse_loss(z, q.detach())
        q = z + (q - z).detach()
        return q, idx, loss


class VQAutoencoder(nn.Module):
    def __init__(self, dim=32, num_codes=512):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, 32, 8, stride=4, padding=2),
            nn.ReLU(),
            nn.Conv1d(32, dim, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(dim, dim, 3, padding=1),
            nn.GroupNorm(1, dim),
        )
        self.quantizer = Quantizer(num_codes, dim)
        self.decoder = nn.Sequential(
            nn.Conv1d(dim, dim, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(dim, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(32, 1, 8, stride=4, padding=2),
        )

    def forward(self, x):
        z = self.encoder(x)
        q, idx, vq_loss = self.quantizer(z)
        return self.decoder(q), idx, vq_loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    train = make_waves(640, 256, seed=1)
    val = make_waves(128, 256, seed=2)
    model = VQAutoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        order = torch.randperm(len(train))
        batches = order.split(args.batch_size)
        for ids in batches:
            x = train[ids]
            recon, _, vq_loss = model(x)
            loss = F.mse_loss(recon, x) + vq_loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()

        model.eval()
        used, val_loss = set(), 0.0
        with torch.no_grad():
            for x in val.split(args.batch_size):
                recon, idx, _ = model(x)
                val_loss += F.mse_loss(recon, x, reduction="sum").item()
                used.update(idx.unique().tolist())
        print(
            f"epoch {epoch} loss {total / len(batches):.4f} "
            f"val mse {val_loss / val.numel():.4f} codes used {len(used)}"
        )

    torch.save(model.state_dict(), out / "vqae.pt")


if __name__ == "__main__":
    main()
