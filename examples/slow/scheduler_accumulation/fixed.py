"""Train a GRU character model with gradient accumulation and a warmup + cosine schedule."""

import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR


@dataclass
class TrainConfig:
    epochs: int = 4
    micro_batch: int = 8
    accum_steps: int = 4
    lr: float = 4e-3
    warmup_ratio: float = 0.05
    seq_len: int = 64
    hidden: int = 80
    max_grad_norm: float = 1.0
    seed: int = 0
    out: str = "out"


def parse():
    cfg = TrainConfig()
    argv = sys.argv[1:]
    for flag, value in zip(argv[::2], argv[1::2], strict=True):
        name = flag.lstrip("-").replace("-", "_")
        setattr(cfg, name, type(getattr(cfg, name))(value))
    return cfg


class GRUModel(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.emb = nn.Embedding(vocab, 48)
        self.gru = nn.GRU(48, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, x):
        return self.fc(self.gru(self.emb(x))[0])


def get_scheduler(optimizer, num_warmup, num_training):
    """Linear warmup, then a cosine down to zero."""

    def factor(step):
        if step < num_warmup:
            return (step + 1) / num_warmup
        progress = (step - num_warmup) / max(1, num_training - num_warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    return LambdaLR(optimizer, factor)


def sequences(ids, length):
    n = (len(ids) - 1) // length
    return ids[: n * length].view(n, length), ids[1 : n * length + 1].view(n, length)


@torch.no_grad()
def validate(model, criterion, x, y):
    model.eval()
    loss = criterion(model(x).transpose(1, 2), y).item()
    model.train()
    return loss


def train(cfg):
    torch.manual_seed(cfg.seed)
    text = (Path(__file__).resolve().parent / ".." / "data" / "shakespeare.txt").read_text()
    text = text[:120_000]
    vocab = sorted(set(text))
    lookup = {c: i for i, c in enumerate(vocab)}
    ids = torch.tensor([lookup[c] for c in text])
    x_train, y_train = sequences(ids[:110_000], cfg.seq_len)
    x_val, y_val = sequences(ids[110_000:], cfg.seq_len)

    model = GRUModel(len(vocab), cfg.hidden)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)

    batches_per_epoch = len(x_train) // cfg.micro_batch
    updates_per_epoch = batches_per_epoch // cfg.accum_steps
    total_steps = updates_per_epoch * cfg.epochs
    scheduler = get_scheduler(optimizer, int(cfg.warmup_ratio * total_steps), total_steps)
    print(f"{batches_per_epoch} micro batches and {updates_per_epoch} updates per epoch")

    t0 = time.time()
    updates = 0
    for epoch in range(cfg.epochs):
        order = torch.randperm(len(x_train))[
            : updates_per_epoch * cfg.accum_steps * cfg.micro_batch
        ]
        running = 0.0
        for i, idx in enumerate(order.split(cfg.micro_batch)):
            loss = criterion(model(x_train[idx]).transpose(1, 2), y_train[idx])
            (loss / cfg.accum_steps).backward()
            running += loss.item()
            if (i + 1) % cfg.accum_steps == 0:
                nn.utils.clip_grad_norm_(model.parameters(), cfg.max_grad_norm)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                updates += 1
                if updates % 40 == 0:
                    print(f"update {updates}/{total_steps} loss {loss.item():.4f}")
        train_loss = running / (i + 1)
        val_loss = validate(model, criterion, x_val, y_val)
        print(f"epoch {epoch}: train {train_loss:.4f} val {val_loss:.4f} {time.time() - t0:.1f}s")

    print(f"final val loss {val_loss:.4f} after {updates} updates")
    folder = Path(cfg.out)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "config": vars(cfg)}, folder / "gru.pt")


if __name__ == "__main__":
    train(parse())
