"""Set transformer whose attention maps are part of the objective (diversity of heads)."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class DiverseAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // self.h), -1)
        m = F.normalize(a.flatten(2), dim=-1)
        overlap = (m @ m.transpose(1, 2)).triu(1).sum((1, 2)).mean() / (self.h * (self.h - 1) / 2)
        return self.proj((a @ v).transpose(1, 2).reshape(b, t, d)), overlap


class SetNet(nn.Module):
    def __init__(self, d_in=6, d=96, depth=2):
        super().__init__()
        self.inp = nn.Linear(d_in, d)
        self.att = nn.ModuleList(DiverseAttention(d, 4) for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)) for _ in range(depth))
        self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.out = nn.Linear(d, 3)

    def forward(self, x):
        x, reg = self.inp(x), 0.0
        for n, a, f in zip(self.n, self.att, self.ff):
            y, o = a(n(x))
            x = x + y
            x = x + f(x)
            reg = reg + o
        return self.out(x.mean(1)), reg


def sets(n, gen):
    x = torch.randn(n, 48, 6, generator=gen)
    y = torch.stack([x[..., 0].amax(1), x[..., 1].std(1) * 3, (x[..., 2] * x[..., 3]).mean(1) * 4], 1)
    return x, y


def main():
    torch.manual_seed(26)
    gen = torch.Generator().manual_seed(26)
    x, y = sets(4000, gen)
    net = SetNet()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(170):
        j = torch.randint(len(x), (48,), generator=gen)
        out, overlap = net(x[j])
        loss = F.mse_loss(out, y[j]) + 0.1 * overlap
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 30 == 0:
            print(f"step {step} loss {loss.item():.4f} overlap {overlap.item():.4f}")


main()
