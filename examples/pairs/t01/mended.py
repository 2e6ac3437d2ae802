"""Leaf classifier. Pictures live in data/<class>/<n>.jpg."""
import argparse
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).parent / "data"
CLASSES = ["ash", "birch", "elm", "oak"]


def make_data(n_per_class=80, size=224):
    if ROOT.exists():
        return
    rng = np.random.default_rng(7)
    yy, xx = np.mgrid[0:size, 0:size] / size
    for c, name in enumerate(CLASSES):
        (ROOT / name).mkdir(parents=True)
        for i in range(n_per_class):
            fx, fy = rng.uniform(2, 5, 2) + c
            img = np.stack([np.sin(fx * 6 * xx + k) * np.cos(fy * 6 * yy) for k in range(3)], -1)
            img = (img * 70 + 128 + rng.normal(0, 25, img.shape)).clip(0, 255).astype("uint8")
            Image.fromarray(img).save(ROOT / name / f"{i:04d}.jpg", quality=92)


class LeafFolder(Dataset):
    def __init__(self, root):
        self.items = []
        for label, name in enumerate(CLASSES):
            for p in sorted((root / name).glob("*.jpg")):
                self.items.append((self.read(p), label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def read(self, path):
        with Image.open(path) as im:
            im = im.convert("RGB").resize((40, 40), Image.BICUBIC)
        x = torch.from_numpy(np.asarray(im, dtype=np.float32) / 255.0).permute(2, 0, 1)
        return (x - 0.5) / 0.25


class Net(nn.Module):
    def __init__(self, width, n_out):
        super().__init__()
        self.c1 = nn.Conv2d(3, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, width * 2, 3, padding=1)
        self.c3 = nn.Conv2d(width * 2, width * 2, 3, padding=1)
        self.fc = nn.Linear(width * 2, n_out)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.relu(self.c3(x)).mean((2, 3))
        return self.fc(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--bs", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    random.seed(args.seed); np.random.seed(args.seed); torch.manual_seed(args.seed)

    make_data()
    ds = LeafFolder(ROOT)
    loader = DataLoader(ds, batch_size=args.bs, shuffle=True, drop_last=True)
    net = Net(32, len(CLASSES))
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        net.train()
        tot = hits = n = 0
        for x, y in loader:
            logits = net(x)
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
        print(f"epoch {epoch:2d}  loss {tot / n:.4f}  acc {hits / n:.3f}")


if __name__ == "__main__":
    main()
