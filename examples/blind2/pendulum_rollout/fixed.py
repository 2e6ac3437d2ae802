"""Fit a neural dynamics model of a double pendulum on multi-step rollouts."""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn


def derivatives(s):
    """Equations of motion, unit masses and lengths."""
    a, b, va, vb = s.T
    d = a - b
    den = 3 - np.cos(2 * d)
    acc_a = (
        -3 * 9.81 * np.sin(a)
        - 9.81 * np.sin(a - 2 * b)
        - 2 * np.sin(d) * (vb**2 + va**2 * np.cos(d))
    ) / den
    acc_b = 2 * np.sin(d) * (2 * va**2 + 2 * 9.81 * np.cos(a) + vb**2 * np.cos(d)) / den
    return np.stack([va, vb, acc_a, acc_b], 1)


def simulate(n, steps, dt, rng):
    """Roll n pendulums out with RK4; returns (n, steps, 4)."""
    s = np.concatenate([rng.uniform(-1.2, 1.2, (n, 2)), rng.normal(0, 0.5, (n, 2))], 1)
    path = [s]
    for _ in range(steps - 1):
        k1 = derivatives(s)
        k2 = derivatives(s + dt / 2 * k1)
        k3 = derivatives(s + dt / 2 * k2)
        k4 = derivatives(s + dt * k3)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(s)
    return torch.tensor(np.stack(path, 1), dtype=torch.float32)


class Dynamics(nn.Module):
    """MLP for the accelerations inside an Euler step."""

    def __init__(self, hidden=192, dt=0.05):
        super().__init__()
        self.dt = dt
        self.net = nn.Sequential(
            nn.Linear(6, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 2),
        )

    def forward(self, s):
        """Advance one step."""
        angle, speed = s[:, :2], s[:, 2:]
        x = torch.cat([angle.sin(), angle.cos(), speed], 1)
        return s + self.dt * torch.cat([speed, 20 * self.net(x)], 1)


@torch.no_grad()
def rollout_error(model, paths):
    """Mean absolute error along a free rollout."""
    s, errors = paths[:, 0], []
    for t in range(1, paths.shape[1]):
        s = model(s)
        errors.append((s - paths[:, t]).abs().mean().item())
    return errors


def main():
    """Train, evaluate, save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    parser.add_argument("--iters", type=int, default=200)
    parser.add_argument("--horizon", type=int, default=12)
    parser.add_argument("--batch", type=int, default=256)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)

    train = simulate(400, 120, 0.05, rng)
    test = simulate(100, 40, 0.05, rng)
    scale = train.reshape(-1, 4).std(0)

    model = Dynamics()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.iters)
    history = []
    for it in range(1, args.iters + 1):
        who = torch.randint(len(train), (args.batch,))
        when = torch.randint(train.shape[1] - args.horizon, (args.batch,))
        state = train[who, when]

        optimizer.zero_grad()
        loss = 0.0
        for k in range(1, args.horizon + 1):
            state = model(state)
            target = train[who, when + k]
            loss = loss + ((state - target) / scale).pow(2).mean() / args.horizon
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

        history.append(loss.item())
        if it % 40 == 0:
            errors = rollout_error(model, test)
            print(
                f"iter {it} loss {np.mean(history[-40:]):.5f} "
                f"test@10 {errors[9]:.4f} test@39 {errors[-1]:.4f}"
            )

    torch.save(model.state_dict(), out / "dynamics.pt")
    (out / "history.json").write_text(json.dumps(history))


if __name__ == "__main__":
    main()
