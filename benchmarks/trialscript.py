"""A script to try plans on: a small network, steps of some milliseconds, without an end.

    python benchmarks/trialscript.py [--slower 0.1] [--steps N] [--images]

`--slower` plants a slow-down: each step takes so much longer, by turning in a loop. `--images` is a
convolutional network on two threads, which allocates more in a step.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slower", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--images", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(2 if options.images else 1)
    torch.manual_seed(0)
    if options.images:
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2),
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip
        x = torch.randn(4096, 3, 32, 32)
    else:
        model = nn.Sequential(
            nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.Linear(512, 10)
        )
        x = torch.randn(4096, 256)
    optimizer = torch.optim.AdamW(model.parameters())
    loss_of = nn.CrossEntropyLoss()
    y = torch.randint(0, 10, (4096,))
    for step in range(options.steps):
        began = time.process_time()  # which stands still while the trial sleeps
        rows = slice(step * 128 % 4096, step * 128 % 4096 + 128)
        loss = loss_of(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        until = began + (time.process_time() - began) * (1 + options.slower)
        while time.process_time() < until:
            pass


if __name__ == "__main__":
    main()
