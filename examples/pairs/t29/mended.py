import pathlib
import numpy as np
import torch
import torch.nn as nn
import yaml


def load_config():
    with open(pathlib.Path(__file__).with_name("config.yaml")) as f:
        return yaml.safe_load(f)


def house_table(c, seed):
    r = np.random.default_rng(seed)
    x = r.normal(size=(c["rows"], c["features"]))
    w = r.normal(size=(c["features"], 6)) / 3
    y = np.maximum(x @ w, 0).sum(1) + c["noise"] * r.normal(size=c["rows"])
    y = (y - y.mean()) / y.std()
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def build_model(d, c):
    mods = []
    for _ in range(c["depth"]):
        mods += [nn.Linear(d, c["width"]), nn.ReLU(), nn.Dropout(c["dropout"])]
        d = c["width"]
    return nn.Sequential(*mods, nn.Linear(d, 1))


def lr_at(step, total, c):
    if step < c["warmup"]:
        return c["lr"] * (step + 1) / c["warmup"]
    k = (step - c["warmup"]) / max(1, total - c["warmup"])
    return c["min_lr"] + (c["lr"] - c["min_lr"]) * 0.5 * (1 + np.cos(np.pi * k))


def main():
    cfg = load_config()
    torch.manual_seed(cfg["seed"])
    x, y = house_table(cfg["data"], cfg["seed"])
    n_val = len(x) // 10
    model = build_model(x.shape[1], cfg["model"])
    o = cfg["optim"]
    o["lr"] = 0.001
    opt = torch.optim.AdamW(model.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
    xt, yt, xv, yv = x[n_val:], y[n_val:], x[:n_val], y[:n_val]
    per = -(-len(xt) // o["batch_size"])
    step = 0
    for epoch in range(o["epochs"]):
        model.train()
        for idx in torch.randperm(len(xt)).split(o["batch_size"]):
            for g in opt.param_groups:
                g["lr"] = lr_at(step, per * o["epochs"], o)
            loss = nn.functional.mse_loss(model(xt[idx])[:, 0], yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
        model.eval()
        with torch.no_grad():
            v = nn.functional.mse_loss(model(xv)[:, 0], yv).item()
        print(f"epoch {epoch} train {loss.item():.4f} val {v:.4f}")


if __name__ == "__main__":
    main()
