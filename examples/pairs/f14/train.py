"""Physics surrogate: fit a double-pendulum energy map. Raw data are float64 from the solver."""
import numpy as np
import torch
import torch.nn as nn


def solver_table(n, seed):
    r = np.random.RandomState(seed)
    q = r.uniform(-np.pi, np.pi, (n, 2))
    p = r.normal(size=(n, 2))
    c = np.cos(q[:, 0] - q[:, 1])
    kin = (p[:, 0] ** 2 + 2 * p[:, 1] ** 2 - 2 * p[:, 0] * p[:, 1] * c) / (2 * (1 + np.sin(q[:, 0] - q[:, 1]) ** 2))
    pot = -2 * np.cos(q[:, 0]) - np.cos(q[:, 1])
    return np.concatenate([np.sin(q), np.cos(q), p], 1), kin + pot


class RunningMoments:
    """Mean and variance of errors, kept in double."""

    def __init__(self):
        self.n = 0
        self.mean = torch.zeros((), dtype=torch.float64)
        self.m2 = torch.zeros((), dtype=torch.float64)

    def add(self, e):
        e = e.detach().double()
        n = self.n + e.numel()
        d = e.mean() - self.mean
        self.m2 += ((e - e.mean()) ** 2).sum() + d ** 2 * self.n * e.numel() / n
        self.mean += d * e.numel() / n
        self.n = n

    def std(self):
        return (self.m2 / max(1, self.n)).sqrt().item()


def main():
    torch.manual_seed(7)
    x64, y64 = solver_table(24000, 0)
    mu, sd = y64.mean(), y64.std()
    x = torch.from_numpy(x64.astype(np.float32))
    y = torch.from_numpy(((y64 - mu) / sd)).float()
    net = nn.Sequential(nn.Linear(6, 384), nn.Tanh(), nn.Linear(384, 384), nn.Tanh(), nn.Linear(384, 384), nn.Tanh(), nn.Linear(384, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    gen = torch.Generator().manual_seed(0)
    for epoch in range(12):
        mom = RunningMoments()
        for idx in torch.randperm(len(x), generator=gen).split(500):
            err = net(x[idx])[:, 0] - y[idx]
            loss = err.pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            mom.add(err)
        print(f"epoch {epoch} rms error {mom.std() * sd:.5f}")


if __name__ == "__main__":
    main()
