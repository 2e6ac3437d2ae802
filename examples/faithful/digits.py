"""Classifies drawn digits with a small convolution net: Adadelta, StepLR, a loader each way.

Follows pytorch/examples mnist/main.py @ 09654b86fcd7b489840546d9ad0cf9b629dc50d0 (BSD-3-Clause)
in which parts of PyTorch it uses and in which order; the code is ours.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

FONT = "757 262 717 717 551 747 747 711 757 757"  # two rows say enough to tell most digits apart
SIDE = 12  # pixels


def draw(count: int, seed: int) -> TensorDataset:
    random = torch.Generator().manual_seed(seed)
    rows = [[int(char) for char in glyph] for glyph in FONT.split()]
    labels = torch.randint(10, (count,), generator=random)
    images = 0.2 * torch.randn(count, 1, SIDE, SIDE, generator=random)
    for image, label in zip(images, labels.tolist(), strict=True):
        top, left = torch.randint(0, 5, (2,), generator=random).tolist()
        for row, bits in enumerate(rows[label]):
            for column in range(3):
                image[0, top + row, left + column] += bits >> (2 - column) & 1
        image[0, top + 4, left : left + 3] += label / 10
    return TensorDataset(images, labels)


def build() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


def score(model: nn.Module, loader: DataLoader) -> tuple[float, int]:
    model.eval()
    total, right = 0.0, 0
    with torch.no_grad():
        for images, labels in loader:
            logits = model(images)
            total += F.cross_entropy(logits, labels, reduction="sum").item()
            right += int((logits.argmax(1) == labels).sum())
    return total / len(loader.dataset), right


def main() -> None:
    options = argparse.ArgumentParser(description="drawn digits")
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--out", type=Path, default=Path("out"))
    given = options.parse_args()
    torch.manual_seed(1)
    train = DataLoader(draw(1024, seed=2), batch_size=32, shuffle=True)
    held_out = DataLoader(draw(256, seed=3), batch_size=128)
    model = build()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(given.epochs):
        model.train()
        for index, (images, labels) in enumerate(train):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            if index % 8 == 0:
                print(f"epoch {epoch} batch {index}: {loss.item():.6f}")
        mean, right = score(model, held_out)
        rate = schedule.get_last_lr()[0]
        print(f"held out: loss {mean:.6f}, {right} of {len(held_out.dataset)}, rate {rate:.3f}")
        schedule.step()
    given.out.mkdir(exist_ok=True)
    torch.save(model.state_dict(), given.out / "digits.pt")


if __name__ == "__main__":
    main()
