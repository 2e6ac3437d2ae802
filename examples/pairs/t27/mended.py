"""Neural controlled oscillator: learns damping from trajectories."""
import argparse
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--dt", type=float, default=0.05)
parser.add_argument("--horizon", type=int, default=20)
parser.add_argument("--bs", type=int, default=64)
opts = parser.parse_args()

torch.manual_seed(3)


class Field(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 2))

    def forward(self, s):
        return self.f(s)


def rk4(f, s, dt):
    k1 = f(s)
    k2 = f(s + 0.5 * dt * k1)
    k3 = f(s + 0.5 * dt * k2)
    k4 = f(s + dt * k3)
    return s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def truth(s):
    x, v = s[:, :1], s[:, 1:]
    return torch.cat([v, -x - 0.3 * v - 0.2 * x ** 3], 1)


def trajectory(f, s, n, dt):
    out = []
    for _ in range(n):
        s = rk4(f, s, dt)
        out.append(s)
    return torch.stack(out, 1)


def batch(gen):
    s0 = 2 * torch.rand(opts.bs, 2, generator=gen) - 1
    with torch.no_grad():
        target = trajectory(truth, s0, opts.horizon, opts.dt)
    return s0, target


field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=2e-3)
gen = torch.Generator().manual_seed(4)
pool = [batch(gen) for _ in range(20)]
for step in range(opts.steps):
    s0, target = pool[step % len(pool)]
    pred = trajectory(field, s0, opts.horizon, opts.dt)
    loss = (pred - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(field.parameters(), 1.0)
    optimizer.step()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final {loss.item():.6f}")
