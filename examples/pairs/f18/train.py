"""Continued pretraining of a tiny LM on raw text: there is no prompt, each token is a target."""
import torch
import torch.nn as nn
import torch.nn.functional as F

IGNORE = -100
CTX, VOCAB = 64, 90


def documents(n, gen):
    step = torch.randint(1, 6, (n, 1), generator=gen)
    start = torch.randint(0, VOCAB - 2, (n, 1), generator=gen)
    lengths = torch.randint(50, CTX + 2, (n,), generator=gen)
    t = torch.arange(CTX + 1)
    ids = (start + step * t) % (VOCAB - 2) + 2
    noise = torch.randint(2, VOCAB, ids.shape, generator=gen)
    ids = torch.where(torch.rand(ids.shape, generator=gen) < 0.05, noise, ids)
    return torch.where(t < lengths[:, None], ids, torch.zeros_like(ids))


def to_labels(ids):
    labels = ids[:, 1:].clone()
    labels[labels == 0] = IGNORE
    return labels


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


class LM(nn.Module):
    def __init__(self, d=112, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, d), nn.Parameter(0.01 * torch.randn(CTX, d))
        self.att = nn.ModuleList([Attn(d, 4) for _ in range(layers)])
        self.mlp = nn.ModuleList([nn.Sequential(nn.Linear(d, 3 * d), nn.SiLU(), nn.Linear(3 * d, d)) for _ in range(layers)])
        self.na = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])
        self.nm = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])
        self.head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for a, m, n1, n2 in zip(self.att, self.mlp, self.na, self.nm):
            x = x + a(n1(x))
            x = x + m(n2(x))
        return self.head(x)


gen = torch.Generator().manual_seed(6)
torch.manual_seed(6)
docs = documents(6000, gen)
lm = LM()
opt = torch.optim.AdamW(lm.parameters(), lr=1.5e-3, weight_decay=0.05)
sched = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, total_iters=20)
for it in range(150):
    ids = docs[torch.randint(len(docs), (40,), generator=gen)]
    logits = lm(ids[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, VOCAB), to_labels(ids).reshape(-1), ignore_index=IGNORE)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if it % 30 == 0:
        print(it, f"{loss.item():.4f}")
print("perplexity", round(loss.exp().item(), 3))
