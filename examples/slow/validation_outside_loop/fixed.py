"""Classify noisy spirals with early stopping. Part of the course project, week 4."""

import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=50)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("--patience", type=int, default=10)
parser.add_argument("--out", type=Path, default=Path("out"))
args = parser.parse_args()

torch.manual_seed(0)
args.out.mkdir(parents=True, exist_ok=True)
BEST = args.out / "best_model.pt"


def spirals(n, classes=4, noise=0.25, flip=0.1, seed=0):
    """Interleaved spirals in 2d plus distractor features; some labels are wrong."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    r = torch.rand(n, generator=g) * 2 + 0.2
    angle = r * 2.2 + y * (2 * math.pi / classes) + torch.randn(n, generator=g) * noise
    x = torch.stack([r * angle.cos(), r * angle.sin()], dim=1)
    x = torch.cat([x, torch.randn(n, 8, generator=g)], dim=1)
    wrong = torch.rand(n, generator=g) < flip
    y = torch.where(wrong, torch.randint(classes, (n,), generator=g), y)
    return x, y


class Net(nn.Module):
    def __init__(self, d_in=10, hidden=384, classes=4):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(d_in, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)]
        )
        self.out = nn.Linear(hidden, classes)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.out(x)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, correct, n = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        correct += (logits.argmax(dim=1) == y).sum().item()
        n += len(y)
    return loss / n, correct / n


train_loader = DataLoader(TensorDataset(*spirals(2000)), batch_size=args.batch_size, shuffle=True)
val_loader = DataLoader(TensorDataset(*spirals(1000, seed=1)), batch_size=500)
test_loader = DataLoader(TensorDataset(*spirals(2000, seed=2)), batch_size=500)

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

best_val_loss = float("inf")
epochs_without_improvement = 0
start_time = time.time()

for epoch in range(args.epochs):
    model.train()
    running_loss = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * len(y)
    train_loss = running_loss / len(train_loader.dataset)
    if epoch % 5 == 0:
        print(f"epoch {epoch:3d}  train loss {train_loss:.4f}  ({time.time() - start_time:.1f}s)")

    # ---- validation and early stopping ----
    val_loss, val_acc = evaluate(model, val_loader)
    if val_loss < best_val_loss:
        best_val_loss = val_loss
        epochs_without_improvement = 0
        torch.save({"epoch": epoch, "state_dict": model.state_dict()}, BEST)
        print(f"epoch {epoch:3d}  val loss {val_loss:.4f} acc {val_acc:.3f}  saved best model")
    else:
        epochs_without_improvement += 1
        if epochs_without_improvement >= args.patience:
            print(f"early stopping at epoch {epoch}")
            break

checkpoint = torch.load(BEST)
model.load_state_dict(checkpoint["state_dict"])
test_loss, test_acc = evaluate(model, test_loader)
print(f"best epoch {checkpoint['epoch']}: test loss {test_loss:.4f}, test acc {test_acc:.3f}")
print(f"total time {time.time() - start_time:.1f}s")
