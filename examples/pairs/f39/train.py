"""Soil type from spectra. The rare class is repeated in the training rows so that it is seen as often as the others."""
import numpy as np
import torch
import torch.nn as nn


def spectra(n, r):
    y = r.choice(4, n, p=[0.42, 0.34, 0.2, 0.04])
    w = np.linspace(0, 1, 200)
    centre = 0.2 + 0.18 * y + r.normal(0, 0.03, n)
    x = np.exp(-((w[None] - centre[:, None]) ** 2) / 0.01) + 0.3 * r.normal(size=(n, 200))
    return x.astype("f4"), y


def same_order(x, y, seed):
    np.random.RandomState(seed).shuffle(x)
    np.random.RandomState(seed).shuffle(y)
    return x, y


def oversample(x, y):
    counts = np.bincount(y)
    rep = np.round(counts.max() / counts).astype(int)[y]
    idx = np.repeat(np.arange(len(y)), rep)
    return x[idx], y[idx]


def main():
    torch.manual_seed(55)
    r = np.random.RandomState(55)
    xv, yv = spectra(1200, r)
    x, y = spectra(5000, r)
    x, y = oversample(x, y)
    x, y = same_order(x, y, seed=56)
    x, y, xv, yv = map(torch.from_numpy, (x, y, xv, yv))
    net = nn.Sequential(nn.Linear(200, 384), nn.ReLU(), nn.Dropout(0.2), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=6e-4, fused=True)
    print("training rows", len(y), "per class", torch.bincount(y).tolist())
    for epoch in range(34):
        net.train()
        for k in range(0, len(x), 300):
            loss = nn.functional.cross_entropy(net(x[k:k + 300]), y[k:k + 300])
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            p = net(xv).argmax(1)
        recall = [(p[yv == c] == c).float().mean().item() for c in range(4)]
        print(f"epoch {epoch} loss {loss.item():.4f} recall " + " ".join(f"{v:.2f}" for v in recall))


if __name__ == "__main__":
    main()
