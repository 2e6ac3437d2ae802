"""Predict bond yields from a factor table."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(2024)


def make_panel(n=16000, k=96):
    factors = rng.normal(size=(n, k))
    loads = rng.normal(size=(k, 8)) / np.sqrt(k)
    latent = np.tanh(factors @ loads * 1.5)
    y = latent @ rng.normal(size=8) + 0.1 * rng.normal(size=n)
    factors = (factors - factors.mean(0)) / factors.std(0)
    y = (y - y.mean()) / y.std()
    return torch.from_numpy(factors), torch.from_numpy(y)


class YieldNet(nn.Module):
    def __init__(self, k, width=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(k, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def fit(model, train, valid, epochs=5, lr=5e-4):
    loader = DataLoader(train, batch_size=256, shuffle=True)
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    loss_fn = nn.MSELoss()
    for epoch in range(epochs):
        model.train()
        run = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            run += loss.item() * len(yb)
        model.eval()
        with torch.no_grad():
            v = loss_fn(model(valid[0]), valid[1]).item()
        print(f"epoch {epoch}: train {run / len(train):.5f} valid {v:.5f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = make_panel()
    net = YieldNet(x.shape[1])
    net = net.to(x.dtype)
    fit(net, TensorDataset(x[:14000], y[:14000]), (x[14000:], y[14000:]))
