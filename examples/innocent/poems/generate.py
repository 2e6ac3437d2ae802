"""python generate.py --ckpt out/poems.pt"""

import argparse

import torch

from corpus import Corpus
from model import PoemNet


@torch.no_grad()
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ckpt", default="out/poems.pt")
    ck = torch.load(p.parse_args().ckpt)
    cfg, g = ck["cfg"], ck["cfg"]["generate"]
    corpus = Corpus(seed=cfg["seed"], **cfg["data"])
    model = PoemNet(len(corpus.chars), **cfg["model"])
    model.load_state_dict(ck["model"])
    model.eval()
    torch.manual_seed(cfg["seed"])
    for _ in range(g["repeat"]):
        ids = [corpus.index[c] for c in g["prompt"]]
        while len(ids) < g["length"] and not corpus.decode(ids).endswith(g["stop_at"]):
            logits = model(torch.tensor([ids[-model.context :]]))[0, -1] / g["temperature"]
            top, where = logits.topk(g["top_k"])
            ids.append(where[torch.multinomial(top.softmax(-1), 1)].item())
        print(corpus.decode(ids))


if __name__ == "__main__":
    main()
