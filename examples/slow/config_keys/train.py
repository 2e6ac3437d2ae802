"""Small conv net on drawn shapes; everything is set in config.yaml."""

import argparse
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from torch.utils.data import DataLoader, TensorDataset

HERE = os.path.dirname(os.path.abspath(__file__))


def draw_shapes(n, size, seed):
    """Noisy images of a disc, a ring, a cross or a bar."""
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(4, (n,), generator=g)
    cx = torch.rand(n, 1, 1, generator=g) * size * 0.4 + size * 0.3
    cy = torch.rand(n, 1, 1, generator=g) * size * 0.4 + size * 0.3
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    r = ((xx - cx) ** 2 + (yy - cy) ** 2).sqrt()
    dx, dy = (xx - cx).abs(), (yy - cy).abs()
    kinds = torch.stack([r < 4, (r > 2.5) & (r < 4.5), (dx < 1) | (dy < 1), dx < 1.5], dim=1)
    image = kinds[torch.arange(n), label].float()
    image += torch.randn(n, size, size, generator=g) * 0.6
    return image[:, None], label


class ShapeNet(nn.Module):
    def __init__(self, channels, dropout):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(8 * channels, 4))

    def forward(self, x):
        return self.classifier(self.features(x))


def evaluate(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
    model.train()
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=os.path.join(HERE, "config.yaml"))
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    with open(args.config) as f:
        config = yaml.safe_load(f)
    data, training = config["data"], config["training"]
    torch.manual_seed(config["seed"])

    train_set = TensorDataset(*draw_shapes(data["n_train"], data["image_size"], seed=1))
    val_set = TensorDataset(*draw_shapes(data["n_val"], data["image_size"], seed=2))
    train_loader = DataLoader(train_set, batch_size=training["batch_size"], shuffle=True)
    val_loader = DataLoader(val_set, batch_size=256)

    model = ShapeNet(**config["model"])
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=training["lr"], weight_decay=training["weight_decay"]
    )
    if training.get("compile"):
        model = torch.compile(model)
    print(f"experiment {config['experiment']}: {len(train_set)} images")

    began = time.time()
    step = 0
    for epoch in range(training["epochs"]):
        tick = time.time()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), training["clip"])
            optimizer.step()
            step += 1
            if step % training["log_every"] == 0:
                print(f"[{epoch}] step {step} loss {loss.item():.4f}")
        acc = evaluate(model, val_loader)
        print(f"epoch {epoch} done in {time.time() - tick:.1f}s, val accuracy {acc:.3f}")

    os.makedirs(args.out, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(args.out, config["experiment"] + ".pt"))
    print(f"total {time.time() - began:.1f}s")


if __name__ == "__main__":
    main()
