"""Image classification with Lightning; the images lie in a JSON lines file, as PNG-like strings."""

import argparse
import base64
import json
import time
import zlib
from pathlib import Path

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 32


def write_records(path, n, seed):
    """Stand-in for our export: sinusoidal gratings in 4 directions, with noise."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE] / SIZE
    with open(path, "w") as f:
        for _ in range(n):
            label = int(rng.integers(4))
            angle = label * np.pi / 4 + rng.normal(scale=0.1)
            wave = np.sin(30 * (xx * np.cos(angle) + yy * np.sin(angle)) + rng.uniform(0, 6))
            pixels = 127 + 60 * wave + rng.normal(scale=30, size=wave.shape)
            pixels = pixels.clip(0, 255).astype(np.uint8)
            lines = b"".join(b"\x01" + np.diff(row, prepend=0).tobytes() for row in pixels)
            blob = base64.b64encode(zlib.compress(lines)).decode()
            f.write(json.dumps({"label": label, "size": SIZE, "data": blob}) + "\n")


class RecordDataset(Dataset):
    def __init__(self, path):
        self.records = Path(path).read_text().splitlines()

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        record = json.loads(self.records[i])
        size = record["size"]
        raw = zlib.decompress(base64.b64decode(record["data"]))
        image = np.zeros((size, size), dtype=np.float32)
        for y in range(size):  # each line: filter byte, then differences to the left
            line = raw[y * (size + 1) + 1 : (y + 1) * (size + 1)]
            left = 0
            for x, value in enumerate(line):
                left = (left + value) % 256
                image[y, x] = left
        image = (image - image.mean()) / (image.std() + 1e-6)
        return torch.from_numpy(image)[None], record["label"]


class Gratings(L.LightningModule):
    def __init__(self, lr=5e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 7, stride=2, padding=3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 4, 4),
        )

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.log("train_loss", loss, prog_bar=True)
        self.log("train_acc", (logits.argmax(1) == y).float().mean(), prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    L.seed_everything(1)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    write_records(out / "train.jsonl", 3200, seed=0)

    model = Gratings()
    loader = DataLoader(RecordDataset(out / "train.jsonl"), batch_size=64, shuffle=True)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=args.out,
    )
    started = time.time()
    trainer.fit(model, loader)
    metrics = {k: round(v.item(), 4) for k, v in trainer.callback_metrics.items()}
    print(f"{trainer.global_step} steps in {time.time() - started:.1f} s, last batch: {metrics}")
    torch.save(model.state_dict(), out / "gratings.pt")
