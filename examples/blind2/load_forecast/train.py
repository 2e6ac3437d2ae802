"""Day-ahead household load forecasting with a small transformer (Accelerate)."""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HISTORY = 72
HORIZON = 24


def make_meters(n_meters=60, days=60, seed=3):
    """Hourly load of households, each with its own daily habits."""
    rng = np.random.default_rng(seed)
    hours = np.arange(days * 24)
    meters = []
    for _ in range(n_meters):
        load = np.full(len(hours), rng.uniform(0.2, 0.5))
        for _ in range(3):
            peak, width, height = rng.uniform(0, 24), rng.uniform(1, 3), rng.uniform(0.5, 2)
            away = np.abs((hours - peak + 12) % 24 - 12)
            load += height * np.exp(-0.5 * (away / width) ** 2)
        drift = np.cumsum(rng.normal(0, 0.02, len(hours)))
        meters.append(load * np.exp(0.3 * np.tanh(drift)) + rng.normal(0, 0.08, len(hours)))
    return np.stack(meters).astype(np.float32)


def windows(load, stride):
    """Cut (history with clock features, next day) pairs."""
    xs, ys = [], []
    for series in load:
        for start in range(0, len(series) - HISTORY - HORIZON, stride):
            clock = 2 * math.pi * np.arange(start, start + HISTORY) / 24
            past = series[start : start + HISTORY]
            xs.append(np.stack([past, np.sin(clock), np.cos(clock)], 1))
            ys.append(series[start + HISTORY : start + HISTORY + HORIZON])
    return torch.tensor(np.stack(xs), dtype=torch.float32), torch.tensor(np.stack(ys))


class LoadTransformer(nn.Module):
    """Encoder over the history; the last position predicts the next day."""

    def __init__(self, d_model=48, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Linear(3, d_model)
        self.position = nn.Parameter(torch.randn(1, HISTORY, d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(d_model, heads, 4 * d_model, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, HORIZON)

    def forward(self, x):
        """Map (batch, HISTORY, 3) to (batch, HORIZON)."""
        h = self.encoder(self.embed(x) + self.position)
        return self.head(h[:, -1])


def evaluate(model, loader):
    """Mean absolute error, next to that of repeating the last day."""
    model.eval()
    error, naive = [], []
    with torch.no_grad():
        for x, y in loader:
            error.append((model(x) - y).abs().mean(1))
            naive.append((x[:, -HORIZON:, 0] - y).abs().mean(1))
    return torch.cat(error).mean().item(), torch.cat(naive).mean().item()


def main():
    """Train and report once per epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    set_seed(0)
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)

    load = make_meters()
    mean, std = load[:, :1080].mean(), load[:, :1080].std()
    load = (load - mean) / std
    train_set = TensorDataset(*windows(load[:, :1080], stride=24))
    val_set = TensorDataset(*windows(load[:, 1080:], stride=24))
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=64)

    model = LoadTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-3, total_steps=args.epochs * len(train_loader)
    )
    model, optimizer, train_loader, val_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, val_loader, scheduler
    )

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            running += loss.item()
        mae, naive = evaluate(model, val_loader)
        accelerator.print(
            f"epoch {epoch} mse {running / len(train_loader):.4f} "
            f"val mae {mae:.3f} (repeat yesterday {naive:.3f})"
        )
    accelerator.save(accelerator.unwrap_model(model).state_dict(), out / "forecaster.pt")


if __name__ == "__main__":
    main()
