"""Metric learning: supervised pairwise loss on embeddings of handwritten-like strokes."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Embedder(nn.Module):
    def __init__(self, d_in=100, h=256, d=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        return self.net(x)


def pairwise_distance(z):
    diff = z.unsqueeze(0) - z.unsqueeze(1)
    return diff.pow(2).sum(-1)


def contrastive(z, y, margin=4.0):
    d2 = pairwise_distance(z)
    same = (y[:, None] == y[None]).float()
    eye = torch.eye(len(y))
    pull = (d2 * (same - eye)).sum() / (same - eye).sum().clamp(min=1)
    push = (F.relu(margin - d2) * (1 - same)).sum() / (1 - same).sum()
    return pull + push


def strokes(n, classes, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, 50)
    proto = torch.randn(classes, 2, 4, generator=torch.Generator().manual_seed(0))
    basis = torch.stack([torch.sin((k + 1) * 3 * t) for k in range(4)])
    y = torch.randint(0, classes, (n,), generator=g)
    c = proto[y] + 0.4 * torch.randn(n, 2, 4, generator=g)
    return (c @ basis).flatten(1), y


@torch.no_grad()
def knn(model, x, y, xq, yq):
    d = torch.cdist(model(xq), model(x))
    return (y[d.argmin(1)] == yq).float().mean().item()


def main():
    torch.manual_seed(1)
    x, y = strokes(6000, 15, 1)
    xq, yq = strokes(400, 15, 2)
    model = Embedder()
    opt = torch.optim.Adam(model.parameters(), lr=5e-4)
    for epoch in range(7):
        for j in torch.randperm(len(x)).split(200):
            loss = contrastive(model(x[j]), y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} 1-nn {knn(model, x[:2000], y[:2000], xq, yq):.3f}")


main()
