"""Ranking prices of used bikes: residual MLP, one-cycle schedule."""
import math
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import OneCycleLR

torch.manual_seed(13)
N, D, H, BS, EPOCHS = 16000, 40, 384, 256, 10


class Res(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.norm = nn.LayerNorm(h)
        self.a = nn.Linear(h, h)
        self.b = nn.Linear(h, h)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(D, H)
        self.blocks = nn.ModuleList(Res(H) for _ in range(3))
        self.out = nn.Linear(H, 1)

    def forward(self, x):
        x = self.inp(x)
        for b in self.blocks:
            x = b(x)
        return self.out(x)[:, 0]


def bikes():
    x = torch.randn(N, D)
    w1 = torch.randn(D, 10) / math.sqrt(D)
    y = torch.sin(3 * x @ w1).sum(1) * 0.4 + x[:, 0]
    return x, y + 0.05 * torch.randn(N)


def main():
    x, y = bikes()
    tr, va = slice(0, 14000), slice(14000, N)
    model = Model()
    steps = math.ceil(14000 / BS)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    sched = OneCycleLR(opt, max_lr=3e-3, total_steps=EPOCHS * steps, pct_start=0.2)
    xt, yt = x[tr], y[tr]
    for epoch in range(EPOCHS):
        perm = torch.randperm(len(xt))
        total = 0.0
        for k in range(steps):
            idx = perm[k * BS:(k + 1) * BS]
            loss = nn.functional.smooth_l1_loss(model(xt[idx]), yt[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            total += loss.item()
        with torch.no_grad():
            v = nn.functional.smooth_l1_loss(model(x[va]), y[va]).item()
        print(f"[{epoch}] train={total / steps:.4f} val={v:.4f} lr={sched.get_last_lr()[0]:.6f}")


main()
