"""Denoising autoencoder for windows of a simulated vibration sensor."""

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


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


@torch.no_grad()
def evaluate(model, windows):
    model.eval()
    loss = F.mse_loss(model(windows), windows).item()
    model.train()
    return loss


def save_checkpoint(path, model, optimizer, step, history, examples):
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "history": history,
            "examples": examples,
        },
        path,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--save-every", type=int, default=10)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    windows = make_windows(simulate_sensor(1_600_000), args.width, stride=16)
    n_val = 512
    train, val = windows[:-n_val], windows[-n_val:]
    examples = val[:8]
    print(f"{len(train)} training windows, {len(val)} validation windows")

    model = Denoiser(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    history = []

    for step in range(1, args.steps + 1):
        idx = torch.randint(len(train), (args.batch_size,))
        clean = train[idx]
        noisy = clean + args.noise * torch.randn_like(clean)
        loss = F.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        if step % args.save_every == 0:
            history.append((step, loss.item()))
            save_checkpoint(out / "last.pt", model, optimizer, step, history, examples)
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} val {evaluate(model, val):.4f}")

    print("done, checkpoint in", out / "last.pt")


if __name__ == "__main__":
    main()
