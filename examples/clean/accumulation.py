"""Sequence model with gradient accumulation, clipping and a schedule in optimizer steps."""

import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SYMBOLS = 12


def sequences(n, length, seed):
    """Words of a made-up grammar: the next symbol depends on the two before it."""
    table = torch.randn(SYMBOLS, SYMBOLS, SYMBOLS, generator=torch.Generator().manual_seed(0)).mul(
        2.5
    )
    probs = table.softmax(-1)
    g = torch.Generator().manual_seed(seed)
    s = torch.randint(SYMBOLS, (n, 2), generator=g)
    for _ in range(length - 1):
        nxt = torch.multinomial(probs[s[:, -2], s[:, -1]], 1, generator=g)
        s = torch.cat([s, nxt], dim=1)
    return TensorDataset(s[:, :-1], s[:, 1:])


class Model(nn.Module):
    def __init__(self, dim=80):
        super().__init__()
        self.emb = nn.Embedding(SYMBOLS, dim)
        self.lstm = nn.LSTM(dim, dim, num_layers=2, batch_first=True)
        self.out = nn.Linear(dim, SYMBOLS)

    def forward(self, x):
        return self.out(self.lstm(self.emb(x))[0])


def cosine_with_warmup(optimizer, warmup_steps, total_steps):
    def factor(step):
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        t = (step - warmup_steps) / max(1, total_steps - warmup_steps)
        return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * t))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--micro-batch", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--out", type=Path, default=Path("out"))
    args = ap.parse_args()
    torch.manual_seed(0)

    train_set, val_set = sequences(1920, 64, seed=1), sequences(160, 64, seed=2)
    train_loader = DataLoader(train_set, args.micro_batch, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, 80)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    updates = len(train_loader) // args.accumulate * args.epochs
    scheduler = cosine_with_warmup(optimizer, warmup_steps=15, total_steps=updates)
    print(f"{updates} updates of {args.accumulate} x {args.micro_batch} sequences")

    start = time.time()
    for epoch in range(args.epochs):
        model.train()
        total = torch.zeros(())
        optimizer.zero_grad()
        for i, (x, y) in enumerate(train_loader, start=1):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            (loss / args.accumulate).backward()
            total += loss.detach()
            if i % args.accumulate == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
        model.eval()
        with torch.no_grad():
            val = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in val_loader]
        print(
            f"epoch {epoch} train {total.item() / len(train_loader):.4f} "
            f"val {torch.stack(val).mean().item():.4f} lr {scheduler.get_last_lr()[0]:.2e} "
            f"{time.time() - start:.1f}s"
        )

    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
    }
    torch.save(checkpoint, args.out / "lstm.pt")


if __name__ == "__main__":
    main()
