"""Train a small CNN on stroke-drawn glyphs that are kept in one .npz archive."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 28
CLASSES = 12


def draw_archive(path, n=1600, seed=7):
    """Draw the glyphs (a few line segments per class, jittered) and pack them."""
    rng = np.random.default_rng(seed)
    strokes = rng.uniform(5, SIZE - 5, (CLASSES, 4, 2, 2))
    labels = rng.integers(0, CLASSES, n)
    images = np.zeros((n, SIZE, SIZE), dtype=np.uint8)
    t = np.linspace(0, 1, 40)[:, None]
    for i, label in enumerate(labels):
        shift = rng.normal(0, 1.5, 2)
        for a, b in strokes[label] + rng.normal(0, 1.0, (4, 2, 2)):
            xy = np.clip(np.rint(a + t * (b - a) + shift), 0, SIZE - 1).astype(int)
            images[i, xy[:, 1], xy[:, 0]] = rng.integers(150, 255)
    np.savez_compressed(path, images=images, labels=labels)


class GlyphDataset(Dataset):
    """One split of the archive."""

    def __init__(self, path, indices, augment=False):
        self.archive = np.load(path)
        self.indices = indices
        self.augment = augment

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, i):
        i = self.indices[i]
        image = torch.from_numpy(self.archive["images"][i]).float().div(255).unsqueeze(0)
        label = int(self.archive["labels"][i])
        if self.augment:
            dx, dy = torch.randint(-2, 3, (2,)).tolist()
            image = torch.roll(image, (dx, dy), dims=(1, 2))
        return image, label


class GlyphNet(nn.Module):
    """Three conv blocks and a linear head."""

    def __init__(self, width=32):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.conv3 = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.head = nn.Linear(2 * width * 3 * 3, CLASSES)

    def forward(self, x):
        """Return class scores."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.max_pool2d(F.relu(self.conv3(x)), 2)
        return self.head(x.flatten(1))


@torch.no_grad()
def accuracy(model, loader):
    """Share of right answers over a loader."""
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    """Train and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)

    path = out / "glyphs.npz"
    if not path.exists():
        draw_archive(path)
    order = np.random.default_rng(0).permutation(1600)
    train_set = GlyphDataset(path, order[:1360], augment=True)
    val_set = GlyphDataset(path, order[1360:])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=240)

    model = GlyphNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for images, labels in train_loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        acc = accuracy(model, val_loader)
        print(f"epoch {epoch} loss {running / len(train_loader):.3f} val acc {acc:.3f}")
    torch.save(model.state_dict(), out / "glyphnet.pt")


if __name__ == "__main__":
    main()
