"""Adapt a frozen character model to Shakespeare with LoRA and a new head.

The trunk comes from our old checkpoint (stand-in here: seeded weights, so that the repository
does not have to carry it).
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

TEXT = Path(__file__).resolve().parent.parent / "data" / "shakespeare.txt"


class LoRALinear(nn.Module):
    """y = Wx + (alpha / r) B A x, W frozen"""

    def __init__(self, base, rank=8, alpha=16):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.A = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + (x @ self.A.T @ self.B.T) * self.scale


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Backbone(nn.Module):
    def __init__(self, vocab, dim=64, depth=3, heads=4, context=48):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.tok(ids) + 0.3 * self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def load_backbone(vocab):
    torch.manual_seed(2023)
    return Backbone(vocab)


class LoRAModel(nn.Module):
    def __init__(self, backbone, vocab, rank=8, targets=("qkv", "proj", "fc1", "fc2")):
        super().__init__()
        self.backbone = backbone
        for p in self.backbone.parameters():
            p.requires_grad = False
        self.adapters = nn.ModuleDict()
        for name, module in list(self.backbone.named_modules()):
            if isinstance(module, nn.Linear) and name.endswith(targets):
                self.adapters[name.replace(".", "_")] = LoRALinear(module, rank)
        self.head = nn.Linear(64, vocab)

    def forward(self, ids):
        return self.head(self.backbone(ids))


def windows(ids, context):
    n = (len(ids) - 1) // context
    return TensorDataset(
        ids[: n * context].view(n, context), ids[1 : n * context + 1].view(n, context)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()

    text = TEXT.read_text()[:110_000]
    itos = sorted(set(text))
    ids = torch.tensor([itos.index(c) for c in text])
    train_loader = DataLoader(windows(ids[:100_000], 48), args.batch_size, shuffle=True)
    val_loader = DataLoader(windows(ids[100_000:], 48), 64)

    model = LoRAModel(load_backbone(len(itos)), len(itos), args.rank)
    trainable = [p for p in model.parameters() if p.requires_grad]
    n_train, n_all = sum(p.numel() for p in trainable), sum(p.numel() for p in model.parameters())
    print(f"trainable params: {n_train:,} || all params: {n_all:,} || {n_train / n_all:.1%}")
    optimizer = torch.optim.AdamW(trainable, lr=args.lr)

    start = time.perf_counter()
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for step, (x, y) in enumerate(train_loader, 1):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        model.eval()
        with torch.no_grad():
            losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in val_loader]
        val = torch.stack(losses).mean().item()
        print(
            f"epoch {epoch}: train loss {running / step:.4f}, val loss {val:.4f}, "
            f"{time.perf_counter() - start:.1f} s"
        )

    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    tuned = {k: v for k, v in model.state_dict().items() if k.startswith(("adapters", "head"))}
    torch.save(tuned, out / "lora.pt")


if __name__ == "__main__":
    main()
