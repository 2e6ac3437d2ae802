"""Two-tower matching of noisy vectors (toy retrieval), with Accelerate and in-batch negatives."""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def make_pairs(n, seed):
    """Two views of the same hidden vector."""
    world = torch.Generator().manual_seed(0)
    a, b = torch.randn(16, 48, generator=world), torch.randn(16, 48, generator=world)
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 16, generator=g)
    left = torch.tanh(z @ a) + 0.3 * torch.randn(n, 48, generator=g)
    right = torch.tanh(z @ b) + 0.3 * torch.randn(n, 48, generator=g)
    return TensorDataset(left, right)


class TwoTower(nn.Module):
    def __init__(self, width=192, dim=32):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(48, width), nn.ReLU(), nn.Linear(width, dim))
        self.right = nn.Sequential(nn.Linear(48, width), nn.ReLU(), nn.Linear(width, dim))
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, a, b):
        a = F.normalize(self.left(a), dim=-1)
        b = F.normalize(self.right(b), dim=-1)
        return a, b


def evaluate(model, loader, accelerator):
    """Recall and mean reciprocal rank over the whole validation index."""
    model.eval()
    lefts, rights = [], []
    with torch.no_grad():
        for a, b in loader:
            a, b = accelerator.gather_for_metrics(model(a, b))
            lefts.append(a)
            rights.append(b)
        left, right = torch.cat(lefts), torch.cat(rights)
        scores = left @ right.T
        ranks = (scores > scores.diag()[:, None]).sum(1)
        result = {
            "recall@1": (ranks == 0).float().mean().item(),
            "recall@10": (ranks < 10).float().mean().item(),
            "mrr": (1 / (ranks + 1)).float().mean().item(),
        }
    model.train()
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--eval_every", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()
    set_seed(4)
    accelerator = Accelerator(cpu=True)
    train_loader = DataLoader(make_pairs(6400, 1), batch_size=64, shuffle=True)
    val_loader = DataLoader(make_pairs(3000, 2), batch_size=500)
    model = TwoTower()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer, train_loader, val_loader = accelerator.prepare(
        model, optimizer, train_loader, val_loader
    )

    step, history, t0 = 0, [], time.perf_counter()
    for epoch in range(args.epochs):
        for a, b in train_loader:
            left, right = model(a, b)
            logits = left @ right.T * accelerator.unwrap_model(model).log_scale.exp()
            target = torch.arange(len(logits))
            loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % args.eval_every == 0:
                metrics = evaluate(model, val_loader, accelerator)
                history.append({"step": step, "loss": loss.item(), **metrics})
            if step % 50 == 0:
                accelerator.print(
                    f"step {step} loss {loss.item():.3f} mrr {history[-1]['mrr']:.3f} "
                    f"r@10 {history[-1]['recall@10']:.3f} ({time.perf_counter() - t0:.1f}s)"
                )
        accelerator.print(f"epoch {epoch} finished")

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "history.json").write_text(json.dumps(history, indent=1))
    accelerator.save(accelerator.unwrap_model(model).state_dict(), args.out / "towers.pt")


if __name__ == "__main__":
    main()
