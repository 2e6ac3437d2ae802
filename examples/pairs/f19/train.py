"""Churn model; the ranking metrics of the validation rows are worked out in plain Python at the end of an epoch."""
import torch
from torch import nn


def auc(scores, labels):
    order = sorted(range(len(scores)), key=scores.__getitem__)
    rank_sum, n_pos = 0, 0
    for r, i in enumerate(order, 1):
        if labels[i]:
            rank_sum += r
            n_pos += 1
    n_neg = len(scores) - n_pos
    return (rank_sum - n_pos * (n_pos + 1) / 2) / max(1, n_pos * n_neg)


def precision_at(scores, labels, k):
    top = sorted(zip(scores, labels), reverse=True)[:k]
    return sum(l for _, l in top) / k


class Churn(nn.Module):
    def __init__(self, months=24, feats=10, d=64):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(feats, d, 3, padding=1), nn.ReLU(), nn.Conv1d(d, d, 3, padding=1), nn.ReLU())
        self.fc = nn.Sequential(nn.Linear(d * 2, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, x):
        h = self.conv(x)
        return self.fc(torch.cat([h.mean(2), h.amax(2)], 1))[:, 0]


def customers(n, gen):
    x = torch.randn(n, 10, 24, generator=gen)
    trend = x[:, 0, -6:].mean(1) - x[:, 0, :6].mean(1) + x[:, 1].amax(1) * 0.4 - 0.8
    y = (trend + 0.3 * torch.randn(n, generator=gen) > 0.4).float()
    return x, y


def main():
    torch.manual_seed(22)
    gen = torch.Generator().manual_seed(22)
    x, y = customers(12000, gen)
    xv, yv = customers(800, gen)
    labels = yv.int().tolist()
    net = Churn()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    for epoch in range(15):
        for idx in torch.randperm(len(x), generator=gen).split(240):
            opt.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(net(x[idx]), y[idx])
            loss.backward()
            opt.step()
        with torch.no_grad():
            s = net(xv).tolist()
        print(f"epoch {epoch} loss {loss.item():.4f} auc {auc(s, labels):.4f} p@100 {precision_at(s, labels, 100):.3f}")


main()
