"""Tiny vision transformer with inspectable attention maps."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class InspectableAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.proj = nn.Linear(d, d)
        self.last_map = None

    def heads(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.h, d // self.h).transpose(1, 2)

    def attention_map(self, x):
        q, k = self.heads(self.q(x)), self.heads(self.k(x))
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        y = F.scaled_dot_product_attention(q, k, v)
        self.last_map = self.attention_map(x).mean(1).detach()
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class ViTBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = InspectableAttention(d, heads)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, d=64, depth=2, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 3, stride=3)
        self.pos = nn.Parameter(torch.randn(1, 144, d) * 0.02)
        self.blocks = nn.ModuleList(ViTBlock(d, 4) for _ in range(depth))
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))


def main():
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(2)
    proto = torch.randn(10, 3, 36, 36, generator=g)
    y = torch.randint(0, 10, (2000,), generator=g)
    x = proto[y] * 0.4 + torch.randn(2000, 3, 36, 36, generator=g)
    model = ViT()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(130):
        j = torch.randint(0, 2000, (24,), generator=g)
        loss = F.cross_entropy(model(x[j]), y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
