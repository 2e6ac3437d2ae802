"""Normalising flow on two moons, with a debug switch for anomaly detection."""
import os
import math
import torch
import torch.nn as nn

DEBUG_STEPS = int(os.environ.get("FLOW_DEBUG_STEPS", "2"))


class Coupling(nn.Module):
    def __init__(self, flip, h=192):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2))

    def forward(self, x):
        a, b = x[:, :1], x[:, 1:]
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        return (torch.cat([b, a], 1) if self.flip else torch.cat([a, b], 1)), s[:, 0]


class Flow(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(i % 2 == 1) for i in range(n))

    def log_prob(self, x):
        logdet = 0.0
        for l in self.layers:
            x, s = l(x)
            logdet = logdet + s
        return -0.5 * x.pow(2).sum(1) - math.log(2 * math.pi) + logdet


def moons(n, gen):
    k = torch.randint(0, 2, (n,), generator=gen).float()
    th = math.pi * torch.rand(n, generator=gen)
    x = torch.cos(th) * (1 - 2 * k) + k - 0.5
    y = torch.sin(th) * (1 - 2 * k) + 0.5 * k - 0.25
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=gen)


def main():
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(9)
    data = moons(20000, gen)
    flow = Flow()
    opt = torch.optim.Adam(flow.parameters(), lr=1e-3, fused=True)
    for step in range(380):
        x = data[torch.randint(len(data), (768,), generator=gen)]
        with torch.autograd.set_detect_anomaly(step < DEBUG_STEPS):
            loss = -flow.log_prob(x).mean()
            opt.zero_grad()
            loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"step {step} nll {loss.item():.4f}")


if __name__ == "__main__":
    main()
