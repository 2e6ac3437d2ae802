"""Decoder-only model of note sequences (melodies)."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Args:
    vocab, ctx, dim, heads, depth = 64, 256, 64, 8, 2
    batch, steps, lr = 8, 130, 1e-3


class MaskedAttention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.hd = a.heads, a.dim // a.heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(a.dim, a.dim, bias=False) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        q = self.wq(x).view(b, t, self.heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.heads, self.hd).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.hd)
        mask = torch.tril(torch.ones(t, t)).repeat(b, self.heads, 1, 1)
        scores = scores.masked_fill(mask == 0, float("-inf"))
        probs = F.softmax(scores, dim=-1)
        out = torch.matmul(probs, v)
        return self.wo(out.transpose(1, 2).contiguous().view(b, t, d))


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.att = MaskedAttention(a)
        self.ff1, self.ff2 = nn.Linear(a.dim, 3 * a.dim), nn.Linear(3 * a.dim, a.dim)
        self.n1, self.n2 = nn.RMSNorm(a.dim), nn.RMSNorm(a.dim)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff2(F.silu(self.ff1(self.n2(x))))


class MelodyModel(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.emb, self.pos = nn.Embedding(a.vocab, a.dim), nn.Embedding(a.ctx, a.dim)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.depth))
        self.norm, self.out = nn.RMSNorm(a.dim), nn.Linear(a.dim, a.vocab)

    def forward(self, ids):
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1]))
        for l in self.layers:
            x = l(x)
        return self.out(self.norm(x))


def melodies(n, a):
    g = torch.Generator().manual_seed(90)
    jump = torch.tensor([-5, -2, 0, 2, 4, 7])
    steps = jump[torch.randint(0, 6, (n, a.ctx + 1), generator=g)]
    return (steps.cumsum(1) + torch.randint(0, 64, (n, 1), generator=g)) % a.vocab


def main():
    a = Args()
    torch.manual_seed(90)
    data = melodies(800, a)
    model = MelodyModel(a)
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr)
    for s in range(a.steps):
        row = data[(torch.arange(a.batch) + s * a.batch) % len(data)]
        loss = F.cross_entropy(model(row[:, :-1]).flatten(0, 1), row[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if s % 20 == 0:
            print(f"step {s:4d} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
