"""Sentiment of product reviews, bag of subwords + attention pooling; accuracy, loss and entropy shown per step."""
import torch
from torch import nn
import torch.nn.functional as F

VOCAB, LENGTH, DIM = 3000, 64, 128


class Pooling(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.query = nn.Parameter(torch.randn(4, d) * 0.05)

    def forward(self, h):
        w = torch.softmax(h @ self.query.t(), 1)
        return torch.einsum("btk,btd->bkd", w, h).flatten(1)


class Reviewer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.conv = nn.Conv1d(DIM, DIM, 3, padding=1)
        self.pool = Pooling(DIM)
        self.cls = nn.Linear(4 * DIM, 5)

    def forward(self, ids):
        h = self.emb(ids).transpose(1, 2)
        h = F.gelu(self.conv(h)).transpose(1, 2)
        return self.cls(self.pool(h))


class Stats(dict):
    def track(self, logits, labels, loss):
        lp = logits.log_softmax(1)
        self["loss"] = 0.95 * self.get("loss", loss) + 0.05 * loss
        acc = (lp.argmax(1) == labels).float().mean().item()
        self["acc"] = 0.95 * self.get("acc", acc) + 0.05 * acc
        self["entropy"] = -(lp.exp() * lp).sum(1).mean().item()

    def __str__(self):
        return " ".join(f"{k}={v:.3f}" for k, v in self.items())


def reviews(n, g):
    y = torch.randint(0, 5, (n,), generator=g)
    ids = torch.randint(0, VOCAB, (n, LENGTH), generator=g)
    hint = torch.randint(0, 40, (n, LENGTH), generator=g) + 40 * y[:, None]
    use = torch.rand(n, LENGTH, generator=g) < 0.12
    return torch.where(use, hint, ids), y


def main():
    g = torch.Generator().manual_seed(10)
    torch.manual_seed(10)
    ids, y = reviews(6400, g)
    model = Reviewer()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    stats = Stats()
    step = 0
    for epoch in range(4):
        for j in torch.randperm(len(y), generator=g).split(128):
            labels = y[j]
            logits = model(ids[j])
            loss = F.cross_entropy(logits, labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            stats.track(logits.detach(), labels, loss.item())
            step += 1
            if step % 25 == 0:
                print(f"step {step} {stats}")


main()
