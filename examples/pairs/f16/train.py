"""Masked word prediction on a small corpus. Tokenising happens once, with a progress bar."""
import random
import re

import torch
import torch.nn as nn
import torch.nn.functional as F
from tqdm import tqdm

MASK, PAD = 1, 0


def corpus(n, rnd):
    subj = [f"s{i}" for i in range(60)]
    verb = [f"v{i}" for i in range(40)]
    obj = [f"o{i}" for i in range(80)]
    lines = []
    for _ in range(n):
        parts = []
        for _ in range(12):
            a = rnd.randrange(60)
            parts.append(f"{subj[a]} {verb[(a * 3 + rnd.randrange(3)) % 40]}, {obj[(a * 7 + rnd.randrange(4)) % 80]};")
        lines.append(" ".join(parts))
    return lines


def tokenize_all(lines):
    vocab, rows = {"<pad>": PAD, "<mask>": MASK}, []
    pat = re.compile(r"\w+|[^\w\s]")
    for line in tqdm(lines, desc="tokenizing", mininterval=0.5):
        rows.append([vocab.setdefault(w, len(vocab)) for w in pat.findall(line)][:60])
    out = torch.zeros(len(rows), 60, dtype=torch.long)
    for i, r in enumerate(rows):
        out[i, :len(r)] = torch.tensor(r)
    return out, vocab


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.f1, self.f2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.f2(F.gelu(self.f1(self.n2(x))))


class MLM(nn.Module):
    def __init__(self, n, d=96):
        super().__init__()
        self.emb = nn.Embedding(n, d)
        self.pos = nn.Parameter(torch.zeros(60, d))
        self.layers = nn.ModuleList([Layer(d, 4) for _ in range(2)])
        self.ln = nn.LayerNorm(d)

    def forward(self, ids, where):
        h = self.emb(ids) + self.pos
        for l in self.layers:
            h = l(h)
        return self.ln(h)[where] @ self.emb.weight.t()


def main():
    torch.manual_seed(1)
    ids, vocab = tokenize_all(corpus(4000, random.Random(1)))
    net = MLM(len(vocab))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for it in range(130):
        x = ids[torch.randint(len(ids), (48,))]
        where = torch.rand(x.shape) < 0.15
        loss = F.cross_entropy(net(x.masked_fill(where, MASK), where), x[where])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 25 == 0:
            print(f"{it:4d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
