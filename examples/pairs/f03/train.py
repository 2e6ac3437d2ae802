import torch
import torch.nn as nn
from torch.nn import functional as F
from dataclasses import dataclass


@dataclass
class GPTConfig:
    block: int = 128
    vocab: int = 64
    d: int = 128
    heads: int = 4
    layers: int = 2
    batch: int = 24
    iters: int = 100


def make_stream(n, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    nxt = torch.randint(0, vocab, (vocab, 4), generator=g)
    pick = torch.randint(0, 4, (n,), generator=g).tolist()
    table = nxt.tolist()
    s, out = 0, []
    for p in pick:
        out.append(s)
        s = table[s][p]
    return torch.tensor(out)


class CausalBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.attn = nn.Linear(c.d, 3 * c.d)
        self.out = nn.Linear(c.d, c.d)
        self.mlp = nn.Sequential(nn.Linear(c.d, 4 * c.d), nn.GELU(), nn.Linear(4 * c.d, c.d))
        self.n1, self.n2 = nn.LayerNorm(c.d), nn.LayerNorm(c.d)

    def forward(self, x):
        b, t, d = x.shape
        h = self.c.heads
        q, k, v = (z.view(b, t, h, d // h).transpose(1, 2) for z in self.attn(self.n1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.te = nn.Embedding(c.vocab, c.d)
        self.pe = nn.Parameter(torch.zeros(c.block, c.d))
        self.h = nn.ModuleList([CausalBlock(c) for _ in range(c.layers)])
        self.ln = nn.LayerNorm(c.d)
        self.head = nn.Linear(c.d, c.vocab, bias=False)

    def forward(self, idx):
        x = self.te(idx) + self.pe[: idx.size(1)]
        for b in self.h:
            x = b(x)
        return self.head(self.ln(x))


def get_batch(data, cfg, gen):
    ix = torch.randint(len(data) - cfg.block - 1, (cfg.batch,), generator=gen)
    x = torch.stack([data[i:i + cfg.block] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + cfg.block] for i in ix])
    return x, y


def main():
    cfg = GPTConfig()
    torch.manual_seed(0)
    data = make_stream(200_000, cfg.vocab, 42)
    gen = torch.Generator().manual_seed(1)
    net = GPT(cfg)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95))
    for it in range(cfg.iters):
        x, y = get_batch(data, cfg, gen)
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if it % 25 == 0:
            print(f"iter {it} loss {loss.item():.4f}")
    print("done", round(loss.item(), 4))


if __name__ == "__main__":
    main()
