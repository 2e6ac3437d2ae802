"""Image classifier with an auxiliary reconstruction decoder. Settings in config.yaml."""
import pathlib
import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

CONFIG = pathlib.Path(__file__).with_name("config.yaml")


class Encoder(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.c1 = nn.Conv2d(1, w, 3, padding=1)
        self.c2 = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(2 * w, 2 * w, 3, stride=2, padding=1)

    def forward(self, x):
        return F.relu(self.c3(F.relu(self.c2(F.relu(self.c1(x))))))


class Decoder(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.u1 = nn.ConvTranspose2d(2 * w, w, 4, stride=2, padding=1)
        self.u2 = nn.ConvTranspose2d(w, w, 4, stride=2, padding=1)
        self.out = nn.Conv2d(w, 1, 3, padding=1)

    def forward(self, h):
        return self.out(F.relu(self.u2(F.relu(self.u1(h)))))


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg["width"]
        self.encoder, self.decoder = Encoder(w), Decoder(w)
        self.classifier = nn.Linear(2 * w, cfg["classes"])

    def forward(self, x, y):
        h = self.encoder(x)
        logits = self.classifier(h.mean((2, 3)))
        losses = {"ce": F.cross_entropy(logits, y)}
        return logits, losses


def total_loss(losses, weights):
    loss = 0.0
    for name, w in weights.items():
        if name in losses:
            loss = loss + w * losses[name]
    return loss


def shapes(n, k, seed):
    g = torch.Generator().manual_seed(seed)
    base = torch.randn(k, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    y = torch.randint(0, k, (n,), generator=g)
    return base[y] * 0.4 + torch.randn(n, 1, 28, 28, generator=g), y


def main():
    cfg = yaml.safe_load(CONFIG.read_text())
    torch.manual_seed(cfg["seed"])
    x, y = shapes(cfg["rows"], cfg["classes"], cfg["seed"])
    model = Model(cfg)
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=0.9)
    for epoch in range(cfg["epochs"]):
        for idx in torch.randperm(len(x)).split(cfg["batch_size"]):
            logits, losses = model(x[idx], y[idx])
            loss = total_loss(losses, cfg["loss_weights"])
            opt.zero_grad()
            loss.backward()
            opt.step()
        acc = (logits.argmax(1) == y[idx]).float().mean().item()
        print(f"epoch {epoch} loss {loss.item():.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
