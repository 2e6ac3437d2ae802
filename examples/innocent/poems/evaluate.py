"""Bits per character over the whole held-out text, with a bootstrap interval."""

import argparse
import math

import torch
import torch.nn.functional as F

from corpus import Corpus
from model import PoemNet


@torch.no_grad()
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ckpt", default="out/poems.pt")
    ck = torch.load(p.parse_args().ckpt)
    cfg, e = ck["cfg"], ck["cfg"]["evaluate"]
    corpus = Corpus(seed=cfg["seed"], **cfg["data"])
    model = PoemNet(len(corpus.chars), **cfg["model"])
    model.load_state_dict(ck["model"])
    model.eval()
    rows = corpus.val.unfold(0, model.context + 1, e["stride"])
    bits = []
    for chunk in rows.split(e["batch"]):
        loss = F.cross_entropy(model(chunk[:, :-1]).transpose(1, 2), chunk[:, 1:], reduction="none")
        bits.append(loss[:, -e["stride"] :].mean(1) / math.log(2))
    bits = torch.cat(bits)
    g = torch.Generator().manual_seed(0)
    means = torch.stack(
        [
            bits[torch.randint(len(bits), (len(bits),), generator=g)].mean()
            for _ in range(e["bootstrap"])
        ]
    )
    lo, hi = means.quantile((1 - e["confidence"]) / 2), means.quantile((1 + e["confidence"]) / 2)
    if e["table"] == "latex":
        print(rf"bits/char & {bits.mean():.3f} & [{lo:.3f}, {hi:.3f}] \\")
    else:
        print(f"bits/char {bits.mean():.3f} [{lo:.3f}, {hi:.3f}]")


if __name__ == "__main__":
    main()
