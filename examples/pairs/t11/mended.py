"""Keyword spotting on synthetic spectrograms."""
import logging
import torch
import torch.nn as nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("kws")


class DSBlock(nn.Module):
    def __init__(self, c, o):
        super().__init__()
        self.dw = nn.Conv2d(c, c, 3, padding=1, groups=c)
        self.pw = nn.Conv2d(c, o, 1)
        self.bn = nn.GroupNorm(4, o)

    def forward(self, x):
        return torch.relu(self.bn(self.pw(self.dw(x))))


class KWSNet(nn.Module):
    def __init__(self, n_words=12, w=48):
        super().__init__()
        self.stem = nn.Conv2d(1, w, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(DSBlock(w, w), DSBlock(w, w))
        self.fc = nn.Linear(w, n_words)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        return self.fc(self.blocks(x).mean((2, 3)))


def synth(n, words=12, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, words, (n,), generator=g)
    t = torch.linspace(0, 1, 48)
    f = torch.arange(32).float()[:, None]
    centre = 4 + 2 * y[:, None, None] + 3 * torch.sin(6 * t + y[:, None, None])
    x = torch.exp(-(f - centre) ** 2 / 6) + 0.5 * torch.randn(n, 32, 48, generator=g)
    return x.unsqueeze(1), y


class Meter:
    def __init__(self):
        self.s, self.n = 0.0, 0

    def add(self, v):
        self.s += v
        self.n += 1

    @property
    def mean(self):
        return self.s / max(1, self.n)


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def batch_loss(model, crit, x, y):
    with torch.no_grad():
        return crit(model(x), y).item()


def train():
    torch.manual_seed(0)
    x, y = synth(2560)
    model, crit = KWSNet(), nn.CrossEntropyLoss(label_smoothing=0.05)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(4):
        m_loss, m_acc = Meter(), Meter()
        for idx in torch.randperm(len(x)).split(64):
            xb, yb = x[idx], y[idx]
            out = model(xb)
            loss = crit(out, yb)
            m_acc.add((out.argmax(1) == yb).float().mean().item())
            m_loss.add(loss.item())
            opt.zero_grad()
            loss.backward()
            opt.step()
        log.info("epoch %d loss %.4f acc %.4f", epoch, m_loss.mean, m_acc.mean)


if __name__ == "__main__":
    train()
