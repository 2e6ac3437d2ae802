"""python train.py [--config config.yaml] [--out out]"""

import argparse
import math
import os

import torch
import torch.nn.functional as F
import yaml

from corpus import Corpus
from model import PoemNet

HERE = os.path.dirname(os.path.abspath(__file__))


def lr_at(step, t):
    if step < t["warmup"]:
        return t["lr"] * (step + 1) / t["warmup"]
    done = (step - t["warmup"]) / (t["max_steps"] - t["warmup"])
    return t["min_lr"] + 0.5 * (t["lr"] - t["min_lr"]) * (1 + math.cos(math.pi * done))


@torch.no_grad()
def held_out_loss(model, corpus, cfg):
    t = cfg["train"]
    g = torch.Generator().manual_seed(99)  # the same windows every time
    model.eval()
    total = 0.0
    for _ in range(t["eval_batches"]):
        x, y = corpus.batch("val", t["batch"] * 2, model.context, g)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    model.train()
    return total / t["eval_batches"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--config", default=os.path.join(HERE, "config.yaml"))
    p.add_argument("--out", default="out")
    a = p.parse_args()
    with open(a.config) as f:
        cfg = yaml.safe_load(f)
    t = cfg["train"]

    torch.manual_seed(cfg["seed"])
    g = torch.Generator().manual_seed(cfg["seed"])
    corpus = Corpus(seed=cfg["seed"], **cfg["data"])
    model = PoemNet(len(corpus.chars), **cfg["model"])
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": t["weight_decay"]},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=t["lr"],
        betas=(0.9, 0.98),
        fused=True,
    )
    print(
        f"{len(corpus.train)} characters, {sum(p.numel() for p in model.parameters())} parameters"
    )

    step, best = 0, float("inf")
    while step < t["max_steps"]:
        for group in opt.param_groups:
            group["lr"] = lr_at(step, t)
        x, y = corpus.batch("train", t["batch"], model.context, g)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), t["clip"])
        opt.step()
        step += 1
        if step % t["log_every"] == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}  lr {group['lr']:.2e}")
        if step % t["eval_every"] == 0:
            val = held_out_loss(model, corpus, cfg)
            print(f"step {step:4d}  held-out {val:.3f}")
            if val < best:
                best = val
                os.makedirs(a.out, exist_ok=True)
                torch.save(
                    {"model": model.state_dict(), "cfg": cfg, "step": step},
                    os.path.join(a.out, "poems.pt"),
                )
    print("best held-out loss", round(best, 3))


if __name__ == "__main__":
    main()
