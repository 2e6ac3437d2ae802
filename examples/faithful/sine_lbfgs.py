"""Continues sine waves with two LSTM cells in float64: LBFGS calls a closure that prints.

Follows pytorch/examples time_sequence_prediction/train.py
@ 04b1f3cec923d40972d998a7ed3c00c1b37e765e (BSD-3-Clause) in which parts of PyTorch it uses and in
which order; the code is ours.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


class Waves(nn.Module):
    """Reads a wave point by point, then feeds itself for `beyond` points."""

    def __init__(self, size: int = 12) -> None:
        super().__init__()
        self.size = size
        self.first = nn.LSTMCell(1, size)
        self.second = nn.LSTMCell(size, size)
        self.point = nn.Linear(size, 1)

    def forward(self, waves, beyond=0):
        lower = upper = (waves.new_zeros(len(waves), self.size),) * 2
        points = []
        for index in range(waves.shape[1] + beyond):
            value = waves[:, index : index + 1] if index < waves.shape[1] else points[-1]
            lower = self.first(value, lower)
            upper = self.second(lower[0], upper)
            points.append(self.point(upper[0]))
        return torch.cat(points, dim=1)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--device", default="cpu")
    options.add_argument("--out", type=Path, default=Path("out"))
    given = options.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("there is no card here")
        return 4
    np.random.seed(0)
    torch.manual_seed(0)
    starts = np.random.randint(-20, 20, (12, 1))
    waves = torch.from_numpy(np.sin((np.arange(40) + starts) / 5.0))
    train, unseen = waves[3:], waves[:3]
    model = Waves().double()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=6)
    for step in range(given.steps):

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(train[:, :-1]), train[:, 1:])
            loss.backward()
            print(f"  closure: {loss.item():.10f}")
            return loss

        print("step", step)
        optimizer.step(closure)
        with torch.no_grad():
            ahead = model(unseen[:, :-1], beyond=20)
            error = nn.functional.mse_loss(ahead[:, :-20], unseen[:, 1:])
        print(f"unseen: {error.item():.10f}")
    given.out.mkdir(exist_ok=True)
    np.save(given.out / "ahead.npy", ahead.numpy())
    torch.save(model.state_dict(), given.out / "waves.pt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
