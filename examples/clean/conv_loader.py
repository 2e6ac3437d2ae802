"""Conv net on drawn digits-like glyphs, with a DataLoader over tensors."""

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 8


def glyphs(n, seed, size=28):
    """Random strokes per class, shifted and noisy."""
    strokes = torch.rand(CLASSES, 7, 7, generator=torch.Generator().manual_seed(0)) > 0.6
    big = nn.functional.interpolate(strokes[:, None].float(), scale_factor=3)[:, 0]
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (n,), generator=g)
    images = torch.randn(n, 1, size, size, generator=g) * 0.7
    shifts = torch.randint(size - 21, (n, 2), generator=g)
    for i, (label, (dy, dx)) in enumerate(zip(labels.tolist(), shifts.tolist(), strict=True)):
        images[i, 0, dy : dy + 21, dx : dx + 21] += big[label]
    return TensorDataset(images, labels)


def conv(i, o):
    return [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]


def build_model(width):
    return nn.Sequential(
        *conv(1, width),
        *conv(width, width),
        nn.MaxPool2d(2),
        *conv(width, 2 * width),
        *conv(2 * width, 2 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, CLASSES),
    )


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return hits / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()
    torch.manual_seed(2)

    train_loader = DataLoader(
        glyphs(2048, seed=1), batch_size=args.batch_size, shuffle=True, drop_last=True
    )
    val_loader = DataLoader(glyphs(256, seed=2), batch_size=128)
    model = build_model(args.width)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, T_max=args.epochs * len(train_loader)
    )
    criterion = nn.CrossEntropyLoss()

    for epoch in range(1, args.epochs + 1):
        t0 = time.perf_counter()
        seen = torch.zeros(())
        for i, (images, labels) in enumerate(train_loader):
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            seen += loss.detach()
            if i % 32 == 31:
                print(f"  {i + 1}/{len(train_loader)} loss {loss.item():.4f}")
        acc = accuracy(model, val_loader)
        print(
            f"epoch {epoch} loss {seen.item() / len(train_loader):.4f} val acc {acc:.3f} "
            f"{time.perf_counter() - t0:.1f} s"
        )

    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
        },
        args.out / "glyphs.pt",
    )


if __name__ == "__main__":
    main()
