"""Star type classification from light curves."""
import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(314)


def simulate(n, kinds=5, length=120):
    t = np.linspace(0, 10, length)
    kind = rng.integers(0, kinds, n)
    period = 0.8 + 0.5 * kind + rng.normal(0, 0.05, n)
    phase = rng.uniform(0, 6.28, n)
    curve = np.sin(6.28 * t[None] / period[:, None] + phase[:, None])
    curve = curve + (kind[:, None] > 2) * 0.5 * np.abs(curve) + rng.normal(0, 0.4, (n, length))
    return curve.astype(np.float32), kind


def shuffle(*arrays):
    p = rng.permutation(len(arrays[0]))
    return [a[p] for a in arrays]


def split(x, y, frac=0.85):
    cut = int(frac * len(x))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


class StarNet(nn.Module):
    def __init__(self, kinds=5):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 32, 9, stride=2, padding=4), nn.ReLU(),
            nn.Conv1d(32, 64, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(64, 64, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten())
        self.fc = nn.Linear(256, kinds)

    def forward(self, x):
        return self.fc(self.conv(x.unsqueeze(1)))


def main():
    torch.manual_seed(314)
    x, y = simulate(4000)
    x, y = shuffle(x, y)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    (xt, yt), (xv, yv) = split(x, y)
    net = StarNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(13):
        tot = 0.0
        for j in torch.randperm(len(xt)).split(64):
            loss = nn.functional.cross_entropy(net(xt[j]), yt[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(j)
        with torch.no_grad():
            acc = (net(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch} loss {tot / len(xt):.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
