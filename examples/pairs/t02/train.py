from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    n_rows: int = 20000
    n_features: int = 64
    hidden: int = 512
    batch_size: int = 256
    epochs: int = 15
    lr: float = 2e-3
    warm_epochs: int = 0
    seed: int = 1


def make_table(cfg):
    rng = np.random.default_rng(cfg.seed)
    x = rng.normal(size=(cfg.n_rows, cfg.n_features)).astype(np.float32)
    w = rng.normal(size=(cfg.n_features, 24)) / np.sqrt(cfg.n_features)
    v = rng.normal(size=24)
    y = np.tanh(2 * x @ w) @ v + 0.1 * rng.normal(size=cfg.n_rows)
    return torch.from_numpy(x), torch.from_numpy(y.astype(np.float32))


def build(cfg):
    return nn.Sequential(
        nn.Linear(cfg.n_features, cfg.hidden), nn.SiLU(),
        nn.Linear(cfg.hidden, cfg.hidden), nn.SiLU(),
        nn.Linear(cfg.hidden, 1),
    )


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    err = (model(x).squeeze(1) - y).pow(2).mean().item()
    model.train()
    return err


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    x, y = make_table(cfg)
    n_val = 2000
    xv, yv, xt, yt = x[:n_val], y[:n_val], x[n_val:], y[n_val:]
    model = build(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.epochs)
    gen = torch.Generator().manual_seed(cfg.seed)
    for epoch in range(cfg.epochs):
        order = torch.randperm(len(xt), generator=gen)
        running = 0.0
        batches = order.split(cfg.batch_size)
        for idx in batches:
            pred = model(xt[idx]).squeeze(1)
            loss = nn.functional.mse_loss(pred, yt[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
        print(f"epoch {epoch + 1}/{cfg.epochs}  train {running / len(batches):.4f}  "
              f"val {validate(model, xv, yv):.4f}  lr {opt.param_groups[0]['lr']:.2e}")


if __name__ == "__main__":
    main()
