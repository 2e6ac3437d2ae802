"""Income regression on census-like rows. Logs the validation error often so that the curve is smooth."""
import argparse
import json
import pathlib
import numpy as np
import torch
from torch import nn, optim


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=18000)
    p.add_argument("--val-rows", type=int, default=6000)
    p.add_argument("--width", type=int, default=320)
    p.add_argument("--batch-size", type=int, default=200)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--log-every", type=int, default=4)
    p.add_argument("--seed", type=int, default=17)
    return p.parse_args()


class TabularNet(nn.Module):
    def __init__(self, n_num, cards, width):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(c, 8) for c in cards])
        d = n_num + 8 * len(cards)
        self.mlp = nn.Sequential(
            nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, num, cat):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        return self.mlp(torch.cat([num] + e, 1)).squeeze(-1)


def generate(n, seed):
    r = np.random.default_rng(seed)
    num = r.standard_normal((n, 12)).astype("float32")
    cards = (9, 16, 5, 42)
    cat = np.stack([r.integers(0, c, n) for c in cards], 1)
    eff = [np.random.default_rng(100 + i).standard_normal(c) for i, c in enumerate(cards)]
    y = num[:, 0] * num[:, 1] + sum(e[cat[:, i]] for i, e in enumerate(eff)) + 0.2 * r.standard_normal(n)
    return torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y.astype("float32")), cards


def val_error(model, data):
    num, cat, y = data
    model.eval()
    with torch.no_grad():
        se = 0.0
        for i in range(0, len(y), 500):
            se += (model(num[i:i + 500], cat[i:i + 500]) - y[i:i + 500]).square().sum().item()
    model.train()
    return se / len(y)


def main():
    a = get_args()
    torch.manual_seed(a.seed)
    num, cat, y, cards = generate(a.rows, a.seed)
    val = generate(a.val_rows, a.seed + 1)[:3]
    model = TabularNet(num.shape[1], cards, a.width)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    curve, step = [], 0
    for ep in range(a.epochs):
        order = torch.randperm(a.rows)
        for s in range(0, a.rows, a.batch_size):
            j = order[s:s + a.batch_size]
            loss = nn.functional.mse_loss(model(num[j], cat[j]), y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % a.log_every == 0 and step % (a.rows // a.batch_size) == 0 or step % 90 == 0:
                curve.append((step, loss.item(), val_error(model, val)))
        print(f"epoch {ep} step {step} train {curve[-1][1]:.4f} val {curve[-1][2]:.4f}")
    out = pathlib.Path(__file__).with_name("data_curve.json")
    out.write_text(json.dumps(curve))


if __name__ == "__main__":
    main()
