"""Default prediction on a synthetic credit table, keeping the best epoch on validation."""

import argparse
import copy
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_table(n, n_features=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_features)).astype(np.float32)
    score = 1.2 * x[:, 0] - 0.9 * x[:, 1] + 0.8 * x[:, 2] * x[:, 3] + 0.5 * x[:, 4]
    score = score + rng.normal(scale=1.2, size=n)
    y = (score > 0.3).astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(y)


def standardize(train, *others):
    mean, std = train.mean(0), train.std(0)
    return [(part - mean) / std for part in (train, *others)]


class CreditNet(nn.Module):
    def __init__(self, n_features, hidden=384, dropout=0.1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, 2),
        )

    def forward(self, x):
        return self.layers(x)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss = right = total = 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += (logits.argmax(1) == y).sum().item()
        total += len(y)
    return loss / total, right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    x, y = make_table(7000)
    x_train, x_val, x_test = standardize(x[:2000], x[2000:4000], x[4000:])
    y_train, y_val, y_test = y[:2000], y[2000:4000], y[4000:]
    train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=64, shuffle=True)
    val_loader = DataLoader(TensorDataset(x_val, y_val), batch_size=500)
    test_loader = DataLoader(TensorDataset(x_test, y_test), batch_size=500)

    model = CreditNet(x.size(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    best_loss, best_epoch, best_weights = float("inf"), -1, None
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for xb, yb in train_loader:
            loss = F.cross_entropy(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        val_loss, val_acc = evaluate(model, val_loader)
        if val_loss < best_loss:
            best_loss, best_epoch = val_loss, epoch
            best_weights = copy.deepcopy(model.state_dict())
        if epoch % 5 == 0:
            train_loss = running / len(train_loader)
            print(f"epoch {epoch} train {train_loss:.4f} val {val_loss:.4f} acc {val_acc:.3f}")

    model.load_state_dict(best_weights)
    test_loss, test_acc = evaluate(model, test_loader)
    print(f"best epoch {best_epoch} (val {best_loss:.4f})")
    print(f"test loss {test_loss:.4f} acc {test_acc:.3f}")

    torch.save(model.state_dict(), out / "credit.pt")
    report = {"best_epoch": best_epoch, "test_loss": test_loss, "test_acc": test_acc}
    (out / "report.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
