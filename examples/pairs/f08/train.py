"""Credit default model with early stopping."""
import copy
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Best:
    loss: float = float("inf")
    epoch: int = -1
    weights: dict = field(default_factory=dict)


class DefaultNet(nn.Module):
    def __init__(self, d, h=448, drop=0.3):
        super().__init__()
        self.f = nn.Sequential(
            nn.Linear(d, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(drop),
            nn.Linear(h, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(drop),
            nn.Linear(h, 1))

    def forward(self, x):
        return self.f(x)[:, 0]


def loans(n, seed, d=50):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g)
    risk = x[:, 0] * x[:, 1] + x[:, 2].abs() + 0.5 * x[:, 3]
    y = (risk + torch.randn(n, generator=g) > 1.2).float()
    return x, y


def epoch_pass(net, opt, x, y, bs):
    net.train()
    for idx in torch.randperm(len(x)).split(bs):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.binary_cross_entropy_with_logits(net(x[idx]), y[idx])
        loss.backward()
        opt.step()
    return loss.item()


def val_pass(net, x, y):
    net.eval()
    with torch.no_grad():
        return nn.functional.binary_cross_entropy_with_logits(net(x), y).item()


def main():
    torch.manual_seed(6)
    x, y = loans(12000, 0)
    xv, yv = loans(1200, 1)
    net = DefaultNet(x.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=2e-3, fused=True)
    best = Best()
    for ep in range(18):
        tr = epoch_pass(net, opt, x, y, 400)
        va = val_pass(net, xv, yv)
        if va < best.loss:
            best = Best(va, ep, copy.deepcopy(net.state_dict()))
        print(f"{ep:3d} {tr:.4f} {va:.4f}")
    net.load_state_dict(best.weights)
    print(f"restored epoch {best.epoch}: {val_pass(net, xv, yv):.4f} (was {best.loss:.4f})")


if __name__ == "__main__":
    main()
