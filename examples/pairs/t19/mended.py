"""Fraud detection with per-step metrics."""
import numpy as np
import torch
import torch.nn as nn


def roc_auc(scores, labels):
    pos = [s for s, l in zip(scores, labels) if l == 1]
    neg = [s for s, l in zip(scores, labels) if l == 0]
    if not pos or not neg:
        return 0.5
    a, b = torch.tensor(pos)[:, None], torch.tensor(neg)[None]
    wins = (a > b).sum().item() + 0.5 * (a == b).sum().item()
    return wins / (len(pos) * len(neg))


def f1_score(scores, labels, thr=0.5):
    tp = fp = fn = 0
    for s, l in zip(scores, labels):
        if s >= thr and l == 1:
            tp += 1
        elif s >= thr:
            fp += 1
        elif l == 1:
            fn += 1
    return 2 * tp / max(1, 2 * tp + fp + fn)


class FraudNet(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))

    def forward(self, x):
        return self.net(x).view(-1)


def transactions(n, seed):
    r = np.random.default_rng(seed)
    x = r.normal(size=(n, 36)).astype(np.float32)
    z = x[:, 0] * x[:, 1] + x[:, 2] - 1.2
    y = (r.uniform(size=n) < 1 / (1 + np.exp(-2 * z))).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


def train():
    torch.manual_seed(10)
    x, y = transactions(30720, 10)
    model = FraudNet(36, 256)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    pos_weight = torch.tensor(2.0)
    step = 0
    history = {"loss": [], "auc": [], "f1": []}
    for epoch in range(15):
        for idx in torch.randperm(len(x)).split(768):
            logits = model(x[idx])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, y[idx], pos_weight=pos_weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
            p = torch.sigmoid(logits).detach().tolist()
            t = y[idx].tolist()
            history["loss"].append(loss.item())
            history["auc"].append(roc_auc(p, t))
            history["f1"].append(f1_score(p, t))
            step += 1
        k = 40
        print(f"epoch {epoch} " + " ".join(f"{n} {np.mean(v[-k:]):.4f}" for n, v in history.items()))


if __name__ == "__main__":
    train()
