"""fastText-like classifier with hashed character n-grams: which act half does a line belong to?

Keeps the best checkpoint (model + optimizer) so that a run can be resumed from it.
"""

import argparse
import time
import zlib
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

BUCKETS = 2**18
DIM = 64
MIN_DELTA = 0.04  # smaller improvements are not worth 200 MB on disk
TEXT = Path(__file__).resolve().parents[1] / "data" / "shakespeare.txt"


def ngrams(line, low=4, high=5):
    line = f"<{line.lower()}>"
    for n in range(low, high + 1):
        for i in range(len(line) - n + 1):
            yield zlib.crc32(line[i : i + n].encode()) % BUCKETS


def load_data(n_lines=720):
    lines = [ln for ln in TEXT.read_text().splitlines() if len(ln) > 30]
    # play 0 = Coriolanus, play 1 = Richard III; the file has one after the other
    border = next(i for i, ln in enumerate(lines) if ln.startswith("Now is the winter"))
    labels = [int(i >= border) for i in range(len(lines))]
    g = torch.Generator().manual_seed(3)
    pick = torch.randperm(len(lines), generator=g)[:n_lines].tolist()
    bags = [torch.tensor(list(ngrams(lines[i]))) for i in pick]
    return bags, torch.tensor([labels[i] for i in pick])


class FastText(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(BUCKETS, DIM, mode="mean", sparse=True)
        nn.init.uniform_(self.bag.weight, -1 / DIM, 1 / DIM)
        self.hidden = nn.Linear(DIM, 64)
        self.fc = nn.Linear(64, 2)

    def forward(self, flat, offsets):
        return self.fc(torch.tanh(self.hidden(self.bag(flat, offsets))))


def make_batch(bags, labels, idx):
    chosen = [bags[i] for i in idx]
    offsets = torch.tensor([0] + [len(b) for b in chosen[:-1]]).cumsum(0)
    return torch.cat(chosen), offsets, labels[idx]


@torch.no_grad()
def validate(model, batch):
    model.eval()
    flat, offsets, y = batch
    logits = model(flat, offsets)
    loss = F.cross_entropy(logits, y).item()
    return loss, (logits.argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=44)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--out", type=Path, default=Path("out"))
    opts = parser.parse_args()
    opts.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    bags, labels = load_data()
    n_val = 400
    val_batch = make_batch(bags, labels, list(range(n_val)))
    train_idx = torch.arange(n_val, len(bags))

    model = FastText()
    sparse = torch.optim.SparseAdam(list(model.bag.parameters()), lr=opts.lr)
    dense = torch.optim.Adam([*model.hidden.parameters(), *model.fc.parameters()], lr=opts.lr)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")

    best_val = float("inf")
    history = []
    for epoch in range(opts.epochs):
        t0 = time.time()
        model.train()
        total = 0.0
        order = train_idx[torch.randperm(len(train_idx))]
        for idx in order.split(opts.batch_size):
            flat, offsets, y = make_batch(bags, labels, idx.tolist())
            loss = F.cross_entropy(model(flat, offsets), y)
            sparse.zero_grad()
            dense.zero_grad()
            loss.backward()
            sparse.step()
            dense.step()
            total += loss.item() * len(y)
        train_loss = total / len(train_idx)
        took = time.time() - t0

        val_loss, acc = validate(model, val_batch)
        history.append(took)
        print(
            f"epoch {epoch:3d} | train {train_loss:.5f} | val {val_loss:.5f} "
            f"acc {acc:.3f} | {took * 1e3:.0f} ms"
        )

        if val_loss < best_val - MIN_DELTA:
            best_val = val_loss
            torch.save(
                {
                    "epoch": epoch,
                    "model": model.state_dict(),
                    "sparse": sparse.state_dict(),
                    "dense": dense.state_dict(),
                    "val_loss": val_loss,
                },
                opts.out / "best.pt",
            )

    mean = sum(history) / len(history)
    print(f"best val loss {best_val:.5f}; {mean * 1e3:.0f} ms per epoch on average")


if __name__ == "__main__":
    main()
