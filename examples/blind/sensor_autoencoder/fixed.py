"""Denoising autoencoder for windows of a simulated vibration sensor."""

import argparse
import json
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def simulate_sensor(samples, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(samples, dtype=torch.float32)
    drift = torch.sin(t / 5000) + 0.5 * torch.sin(t / 37) + 0.3 * torch.sin(t / 11)
    return drift + 0.1 * torch.randn(samples, generator=g)


def make_windows(signal, width, stride):
    windows = signal.unfold(0, width, stride).contiguous()
    mean = windows.mean(1, keepdim=True)
    std = windows.std(1, keepdim=True)
    return (windows - mean) / (std + 1e-6)


class Denoiser(nn.Module):
    def __init__(self, width, hidden=128, code=24):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, code), nn.ReLU()
        )
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def evaluate(model, loader):
    model.eval()
    total = count = 0
    with torch.no_grad():
        for noisy, clean in loader:
            total += F.mse_loss(model(noisy), clean, reduction="sum").item()
            count += clean.numel()
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--noise", type=float, default=0.2)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    clean = make_windows(simulate_sensor(160_000), args.width, stride=24)
    noisy = clean + args.noise * torch.randn_like(clean)
    split = int(0.6 * len(clean))
    train_set = TensorDataset(noisy[:split], clean[:split])
    val_set = TensorDataset(noisy[split:], clean[split:])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=256)
    print(f"{len(train_set)} training windows, {len(val_set)} validation windows")

    model = Denoiser(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    best, history = float("inf"), []

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for noisy_batch, clean_batch in train_loader:
            loss = F.mse_loss(model(noisy_batch), clean_batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()

        train_loss = running / len(train_loader)
        val_loss = evaluate(model, val_loader)
        history.append({"epoch": epoch, "train": train_loss, "val": val_loss})
        print(f"epoch {epoch} train {train_loss:.4f} val {val_loss:.4f}")
        if val_loss < best:
            best = val_loss
            torch.save(model.state_dict(), out / "best.pt")

    (out / "history.json").write_text(json.dumps(history, indent=2))
    print(f"best val {best:.4f}")


if __name__ == "__main__":
    main()
