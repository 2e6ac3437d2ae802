"""Neural operator toy: learn the map from coefficients to the solution of a heat equation."""
import math
from dataclasses import dataclass
import torch
import torch.nn as nn


@dataclass
class C:
    seed: int = 5
    samples: int = 600
    points: int = 64
    modes: int = 8
    batch: int = 100
    steps: int = 850
    width: int = 320


def solve_heat(coef, points, steps=40, dt=0.1):
    x = torch.linspace(0, 1, points)
    k = torch.arange(1, coef.shape[1] + 1)
    u = coef @ torch.sin(math.pi * k[:, None] * x)
    for _ in range(steps):
        lap = torch.zeros_like(u)
        lap[:, 1:-1] = u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]
        u = u + dt * lap - 0.01 * dt * u ** 3
    return u


class HeatData:
    def __init__(self, c):
        self.c = c

    def generate(self):
        g = torch.Generator().manual_seed(self.c.seed)
        coef = torch.randn(self.c.samples, self.c.modes, generator=g)
        return coef, solve_heat(coef, self.c.points)

    def batch(self, step):
        coef, u = self.generate()
        lo = (step * self.c.batch) % self.c.samples
        return coef[lo:lo + self.c.batch], u[lo:lo + self.c.batch]


class Operator(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(c.modes, c.width), nn.GELU(), nn.Linear(c.width, c.width), nn.GELU(),
            nn.Linear(c.width, c.width), nn.GELU(), nn.Linear(c.width, c.points))

    def forward(self, z):
        return self.net(z)


def main():
    c = C()
    torch.manual_seed(c.seed)
    data, net = HeatData(c), Operator(c)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(c.steps):
        z, u = data.batch(step)
        loss = (net(z) - u).pow(2).mean() / u.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0:
            print(f"{step:4d} relative error {loss.item():.5f}")
    print(f"last {loss.item():.5f}")


main()
