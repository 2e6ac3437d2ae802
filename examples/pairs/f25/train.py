"""Prototype networks (few-shot): distances of queries to 8 class means."""
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Episode:
    ways: int = 8
    shots: int = 8
    queries: int = 10


class ConvEmbed(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        def blk(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.ReLU(), nn.MaxPool2d(2))
        self.f = nn.Sequential(blk(1, w), blk(w, w), blk(w, w))

    def forward(self, x):
        return self.f(x).flatten(1)


class Glyphs:
    def __init__(self, classes, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.proto = (torch.rand(classes, 1, 24, 24, generator=self.gen) > 0.6).float()

    def draw(self, e):
        c = torch.randperm(len(self.proto), generator=self.gen)[:e.ways]
        n = e.shots + e.queries
        x = self.proto[c].repeat_interleave(n, 0)
        x = x + 0.8 * torch.randn(x.shape, generator=self.gen)
        return x, n


def proto_loss(z, e, n):
    z = z.view(e.ways, n, -1)
    means = z[:, :e.shots].mean(1)
    q = z[:, e.shots:].reshape(e.ways * e.queries, -1)
    d2 = (q.unsqueeze(1) - means.unsqueeze(0)).pow(2).sum(-1)
    target = torch.arange(e.ways).repeat_interleave(e.queries)
    return F.cross_entropy(-d2 / 32, target), (d2.argmin(1) == target).float().mean()


def main():
    torch.manual_seed(2)
    e, data, net = Episode(), Glyphs(60, 2), ConvEmbed().to(memory_format=torch.channels_last)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for it in range(160):
        x, n = data.draw(e)
        loss, acc = proto_loss(net(x), e, n)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 20 == 0:
            print(f"episode {it} loss {loss.item():.4f} acc {acc.item():.3f}")


if __name__ == "__main__":
    main()
