"""Variational autoencoder on waves; keeps a copy of the best model, once an epoch."""
import copy
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, d=128, h=512, z=12):
        super().__init__()
        self.e1, self.e2 = nn.Linear(d, h), nn.Linear(h, h)
        self.mu, self.lv = nn.Linear(h, z), nn.Linear(h, z)
        self.d1, self.d2, self.d3 = nn.Linear(z, h), nn.Linear(h, h), nn.Linear(h, d)

    def forward(self, x):
        h = F.silu(self.e2(F.silu(self.e1(x))))
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
        rec = self.d3(F.silu(self.d2(F.silu(self.d1(z)))))
        return rec, mu, lv


def elbo(x, rec, mu, lv, beta):
    r = F.mse_loss(rec, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum() / len(x)
    return r + beta * kl, r, kl


def waves(n):
    t = torch.linspace(0, 1, 128)
    f = 1 + 6 * torch.rand(n, 1)
    p = 2 * math.pi * torch.rand(n, 1)
    return torch.sin(2 * math.pi * f * t + p) * (0.5 + torch.rand(n, 1)) + 0.05 * torch.randn(n, 128)


def main():
    torch.manual_seed(18)
    train, val = waves(12000), waves(1000)
    vae = VAE()
    opt = torch.optim.Adam(vae.parameters(), lr=1e-3, fused=True)
    best, best_model = math.inf, None
    for epoch in range(11):
        vae.train()
        beta = min(1.0, 0.1 + epoch * 0.1)
        for idx in torch.randperm(len(train)).split(400):
            x = train[idx]
            loss, r, kl = elbo(x, *vae(x), beta)
            opt.zero_grad()
            loss.backward()
            opt.step()
        vae.eval()
        with torch.no_grad():
            v = elbo(val, *vae(val), 1.0)[0].item()
        if v < best:
            best, best_model = v, copy.deepcopy(vae)
        print(f"epoch {epoch} loss {loss.item():.3f} rec {r.item():.3f} kl {kl.item():.3f} val {v:.3f} best {best:.3f}")


if __name__ == "__main__":
    main()
