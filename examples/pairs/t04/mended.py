"""Transfer learning: pretrained conv backbone, new classifier on 8 classes."""
import os
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 21
CKPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data_backbone.pt")


class Backbone(nn.Module):
    out_dim = 64

    def __init__(self):
        super().__init__()
        layers, c = [], 3
        for o in (24, 48, 64):
            layers += [nn.Conv2d(c, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            c = o
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x).mean((2, 3))


class Classifier(nn.Module):
    def __init__(self, backbone, n_classes, hidden=256):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(
            nn.Linear(backbone.out_dim, hidden), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_classes))

    def forward(self, x):
        return self.head(x)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


def make_data(n=960, k=8):
    g = torch.Generator().manual_seed(SEED)
    proto = torch.randn(k, 3, 32, 32, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    x = 0.6 * proto[y] + torch.randn(n, 3, 32, 32, generator=g)
    return x, y


def load_backbone():
    if not os.path.exists(CKPT):
        torch.manual_seed(99)
        torch.save(Backbone().state_dict(), CKPT)
    net = Backbone()
    net.load_state_dict(torch.load(CKPT))
    for p in net.parameters():
        p.requires_grad_(False)
    return net


def train(epochs=20, batch_size=64):
    backbone = load_backbone()
    torch.manual_seed(SEED)
    x, y = make_data()
    model = Classifier(backbone, 8)
    model.eval()
    with torch.no_grad():
        x = torch.cat([model.backbone(b) for b in x.split(64)])
    loader = DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True)
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    crit = nn.CrossEntropyLoss()
    model.train()
    for e in range(epochs):
        losses = []
        for xb, yb in loader:
            opt.zero_grad()
            loss = crit(model(xb), yb)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {e}: {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    train()
