"""A script to try plans on: a small network, steps of some milliseconds, without an end.

    python benchmarks/trialscript.py [--slower 0.1] [--steps N]

`--slower` plants a slow-down: each step takes so much longer, by turning in a loop.
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
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    loss_of = nn.CrossEntropyLoss()
    x, y = torch.randn(4096, 256), torch.randint(0, 10, (4096,))
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
