"""MLP on tabular data that fits into memory; batches are slices of one shuffled tensor."""

import argparse
import time
from pathlib import Path

import torch
import torch.nn as nn


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 64, generator=g)
    w = torch.randn(64, 1, generator=torch.Generator().manual_seed(0))
    y = torch.sin(x @ w / 4) + 0.3 * x[:, :1] * x[:, 1:2]
    return x, y + 0.05 * torch.randn(n, 1, generator=g)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()

    torch.manual_seed(0)
    x, y = make_data(10_240, seed=1)
    x_val, y_val = make_data(1_000, seed=2)
    model = nn.Sequential(
        nn.Linear(64, args.width),
        nn.ReLU(),
        nn.Linear(args.width, args.width),
        nn.ReLU(),
        nn.Linear(args.width, args.width),
        nn.ReLU(),
        nn.Linear(args.width, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    steps_per_epoch = len(x) // args.batch_size
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.epochs * steps_per_epoch
    )
    loss_fn = nn.MSELoss()

    for epoch in range(args.epochs):
        start = time.time()
        order = torch.randperm(len(x))
        x, y = x[order], y[order]
        total = torch.zeros(())
        for i in range(steps_per_epoch):
            xb = x[i * args.batch_size : (i + 1) * args.batch_size]
            yb = y[i * args.batch_size : (i + 1) * args.batch_size]
            loss = loss_fn(model(xb), yb)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.detach()
        model.eval()
        with torch.no_grad():
            val = loss_fn(model(x_val), y_val).item()
        model.train()
        took = time.time() - start
        print(
            f"epoch {epoch} train {total.item() / steps_per_epoch:.4f} val {val:.4f} ({took:.1f}s)"
        )

    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "epoch": args.epochs,
        },
        args.out / "mlp.pt",
    )


if __name__ == "__main__":
    main()
