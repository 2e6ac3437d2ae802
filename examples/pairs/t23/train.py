"""Sort station readings into sites. Rows come from one file per site."""
import os
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def make_data(sites=10, rows=1000):
    os.makedirs(DIR, exist_ok=True)
    r = np.random.default_rng(50)
    w = r.normal(size=(30, 30))
    for s in range(sites):
        path = os.path.join(DIR, f"site_{s}.npy")
        if not os.path.exists(path):
            x = np.tanh((r.normal(size=(rows, 30)) + 0.8 * r.normal(size=30)) @ w / 5)
            np.save(path, x.astype(np.float32))


def load(lo, hi):
    xs, ys = [], []
    for s, name in enumerate(sorted(os.listdir(DIR))):
        part = np.load(os.path.join(DIR, name))[lo:hi]
        xs.append(part)
        ys.append(np.full(len(part), s))
    return TensorDataset(torch.from_numpy(np.concatenate(xs)), torch.from_numpy(np.concatenate(ys)))


class SiteNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(30, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return self.head(self.body(x))


def accuracy(net, loader):
    net.eval()
    good = n = 0
    with torch.no_grad():
        for x, y in loader:
            good += (net(x).argmax(1) == y).sum().item()
            n += len(y)
    net.train()
    return good / n


def main():
    torch.manual_seed(0)
    make_data()
    train_loader = DataLoader(load(0, 800), batch_size=200)
    test_loader = DataLoader(load(800, 1000), batch_size=500)
    net = SiteNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.15, momentum=0.9)
    for epoch in range(18):
        run = 0.0
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            run += loss.item()
        print(f"epoch {epoch:2d} train loss {run / len(train_loader):.4f} test acc {accuracy(net, test_loader):.3f}")


if __name__ == "__main__":
    main()
