"""Mixture-of-experts classifier. The gate mixes probabilities of the experts, the loss is the NLL of the mixture."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoE(nn.Module):
    def __init__(self, d, k, experts=4, h=512):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.w1 = nn.Parameter(torch.randn(experts, d, h) / d ** 0.5)
        self.b1 = nn.Parameter(torch.zeros(experts, 1, h))
        self.w2 = nn.Parameter(torch.randn(experts, h, k) / h ** 0.5)
        self.b2 = nn.Parameter(torch.zeros(experts, 1, k))

    def forward(self, x):
        g = torch.softmax(self.gate(x), dim=1)
        h = F.relu(torch.baddbmm(self.b1, x.expand(len(self.w1), -1, -1), self.w1))
        p = torch.softmax(torch.baddbmm(self.b2, h, self.w2), dim=-1)
        return torch.einsum("be,ebk->bk", g, p)


def clusters(n, d=48, k=7, seed=0):
    g = torch.Generator().manual_seed(seed)
    mu = torch.randn(k * 3, d, generator=torch.Generator().manual_seed(5))
    c = torch.randint(0, k * 3, (n,), generator=g)
    return mu[c] * 0.7 + torch.randn(n, d, generator=g), c % k


@torch.no_grad()
def calibration(net, x, y, bins=8):
    p, guess = net(x).max(1)
    right = (guess == y).float()
    edge = torch.linspace(0, 1, bins + 1)
    gap = 0.0
    for lo, hi in zip(edge[:-1], edge[1:]):
        m = (p > lo) & (p <= hi)
        if m.any():
            gap += (right[m].mean() - p[m].mean()).abs().item() * m.float().mean().item()
    return gap


def main():
    torch.manual_seed(3)
    x, y = clusters(20000)
    xv, yv = clusters(1000, seed=1)
    net = MoE(48, 7)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3, fused=True)
    for ep in range(18):
        tot = 0.0
        for j in torch.randperm(len(x)).split(500):
            probs = net(x[j])
            loss = F.nll_loss(torch.log(probs + 1e-9), y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        with torch.no_grad():
            acc = (net(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {ep} nll {tot / 40:.4f} acc {acc:.3f}")
    print(f"calibration gap {calibration(net, xv, yv):.4f}")


main()
