"""Multi-label tagging of tabular events; logs "everything we might need" for the paper."""

import argparse
import csv
import os
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

N_TAGS = 8


def make_events(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 40)).astype(np.float32)
    w = np.random.default_rng(99).normal(size=(40, N_TAGS)) / 4
    score = np.tanh(x @ w) + 0.5 * x[:, :N_TAGS] * x[:, N_TAGS : 2 * N_TAGS]
    y = (score + rng.normal(scale=0.4, size=score.shape) > 0.3).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


def auc(scores, labels):
    """Rank statistic, as sklearn does it (ties get their mean rank)."""
    order = np.argsort(scores, kind="mergesort")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    values, inverse = np.unique(scores, return_inverse=True)
    sums = np.bincount(inverse, weights=ranks)
    ranks = (sums / np.bincount(inverse))[inverse]
    positive = labels > 0.5
    n_pos, n_neg = positive.sum(), (~positive).sum()
    if n_pos == 0 or n_neg == 0:
        return float("nan")
    return (ranks[positive].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def average_precision(scores, labels):
    order = np.argsort(-scores, kind="mergesort")
    hits = labels[order] > 0.5
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean()) if hits.any() else float("nan")


def best_f1(scores, labels):
    best = 0.0
    for threshold in np.linspace(0.05, 0.95, 19):
        pred = scores > threshold
        tp = np.sum(pred & (labels > 0.5))
        best = max(best, 2 * tp / max(1, pred.sum() + labels.sum()))
    return float(best)


class MetricLogger:
    """Keeps the predictions of the epoch and writes all metrics to a CSV file."""

    def __init__(self, path, model):
        self.path = path
        self.model = model
        self.probs, self.labels = [], []
        with open(path, "w", newline="") as f:
            csv.writer(f).writerow(["step", "loss", "auc", "ap", "f1", "grad_norm", "weight_norm"])

    def reset(self):
        self.probs, self.labels = [], []

    def log(self, step, loss):
        probs = np.concatenate(self.probs)[-2048:]  # running window
        labels = np.concatenate(self.labels)[-2048:]
        row = [step, loss]
        row.append(np.nanmean([auc(probs[:, i], labels[:, i]) for i in range(N_TAGS)]))
        row.append(
            np.nanmean([average_precision(probs[:, i], labels[:, i]) for i in range(N_TAGS)])
        )
        row.append(np.mean([best_f1(probs[:, i], labels[:, i]) for i in range(N_TAGS)]))
        row.append(sum(p.grad.norm().item() ** 2 for p in self.model.parameters()) ** 0.5)
        row.append(sum(p.norm().item() ** 2 for p in self.model.parameters()) ** 0.5)
        with open(self.path, "a", newline="") as f:
            csv.writer(f).writerow(row)
        return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--out", type=str, default="out")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(0)

    train_set = TensorDataset(*make_events(12800, seed=1))
    x_val, y_val = make_events(2000, seed=2)
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = nn.Sequential(
        nn.Linear(40, args.hidden),
        nn.GELU(),
        nn.Linear(args.hidden, args.hidden),
        nn.GELU(),
        nn.Linear(args.hidden, N_TAGS),
    )
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    logger = MetricLogger(os.path.join(args.out, "metrics.csv"), model)

    step = 0
    start = time.time()
    for epoch in range(args.epochs):
        epoch_start = time.time()
        logger.reset()
        for x, y in loader:
            logits = model(x)
            loss = criterion(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1

            logger.probs.append(torch.sigmoid(logits).detach().cpu().numpy())
            logger.labels.append(y.cpu().numpy())
            if step % 50 == 0:
                row = logger.log(step, loss.item())
                print(
                    f"step {step:4d} loss {row[1]:.4f} auc {row[2]:.4f} ap {row[3]:.4f} "
                    f"f1 {row[4]:.4f} |g| {row[5]:.3f}"
                )
        with torch.no_grad():
            val_loss = criterion(model(x_val), y_val).item()
        print(f"== epoch {epoch} val loss {val_loss:.4f} ({time.time() - epoch_start:.1f}s)")
    print(f"finished {step} steps in {time.time() - start:.1f}s")
    torch.save(model.state_dict(), os.path.join(args.out, "tagger.pt"))


if __name__ == "__main__":
    main()
