"""Adapter tuning of a small encoder on a new intent task."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from lora import add_adapters


class SelfAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        f = lambda m: m(x).view(b, t, self.h, d // self.h).transpose(1, 2)
        y = F.scaled_dot_product_attention(f(self.q), f(self.k), f(self.v))
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.n1, self.n2, self.att = nn.LayerNorm(d), nn.LayerNorm(d), SelfAttention(d, h)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class IntentModel(nn.Module):
    def __init__(self, vocab=200, d=96, layers=3, classes=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d, 4) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x).mean(1))


def utterances(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 200, (n, 24), generator=g)
    a, b = ids[:, 0] % 3, (ids[:, 1:] < 20).any(1).long()
    return ids, a * 2 + b


def main():
    torch.manual_seed(60)
    model = add_adapters(IntentModel())
    trainable = [p for p in model.parameters() if p.requires_grad]
    total = sum(p.numel() for p in model.parameters())
    print(f"trainable {sum(p.numel() for p in trainable)} of {total}")
    opt = torch.optim.AdamW(trainable, lr=2e-3)
    ids, y = utterances(5000, 1)
    for epoch in range(4):
        hits = 0
        for j in torch.randperm(len(ids)).split(64):
            out = model(ids[j])
            loss = F.cross_entropy(out, y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (out.argmax(1) == y[j]).sum().item()
        print(f"epoch {epoch} loss {loss.item():.4f} acc {hits / len(ids):.3f}")


if __name__ == "__main__":
    main()
