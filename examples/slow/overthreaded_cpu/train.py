"""Regress the parameters of damped oscillations from their spectra.

Features are made with numpy as the batches are drawn; the net is a plain MLP.
Run on the cluster with 16 cores per task.
"""

import os

os.environ["OMP_NUM_THREADS"] = "16"
os.environ["MKL_NUM_THREADS"] = "16"
os.environ["OPENBLAS_NUM_THREADS"] = "16"

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(16)
torch.set_num_interop_threads(16)


class Oscillations(IterableDataset):
    """Endless batches of log spectra, and frequency and damping to be found."""

    def __init__(self, batch_size, length=256, seed=0):
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.t = np.arange(length) / length
        self.window = np.hanning(length)
        # mild whitening, a fixed mixing of the bins
        self.mix = np.eye(length // 2 + 1) + 0.02 * self.rng.normal(size=(length // 2 + 1,) * 2)

    def __iter__(self):
        while True:
            f = self.rng.uniform(5, 60, size=(self.batch_size, 1))
            d = self.rng.uniform(0.5, 6, size=(self.batch_size, 1))
            phase = self.rng.uniform(0, 2 * np.pi, size=(self.batch_size, 1))
            wave = np.exp(-d * self.t) * np.sin(2 * np.pi * f * self.t + phase)
            wave += self.rng.normal(scale=0.05, size=wave.shape)
            spectrum = np.log1p(np.abs(np.fft.rfft(wave * self.window))) @ self.mix
            target = np.concatenate([f / 60, d / 6], axis=1)
            yield torch.from_numpy(spectrum).float(), torch.from_numpy(target).float()


def build_mlp(width, depth):
    layers = [nn.Linear(129, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = iter(DataLoader(Oscillations(args.batch_size), batch_size=None, num_workers=0))
    model = build_mlp(args.width, args.depth)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.MSELoss()

    start = time.time()
    lap = start
    for step in range(1, args.steps + 1):
        x, y = next(loader)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            now = time.time()
            print(f"step {step}: loss {loss.item():.5f}, {50 / (now - lap):.1f} it/s")
            lap = now

    print(f"{args.steps} steps took {time.time() - start:.1f} s")
    os.makedirs(args.out, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(args.out, "oscillations.pt"))


if __name__ == "__main__":
    main()
