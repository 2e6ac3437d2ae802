"""Answers one line of numbers per request on standard input (see config.yaml: serve, labels)."""
import sys
import pathlib
import torch
import yaml
from train import WindNet


def main():
    here = pathlib.Path(__file__).parent
    cfg = yaml.safe_load((here / "config.yaml").read_text())
    net = WindNet(cfg["train"]["width"], len(cfg["labels"]))
    net.load_state_dict(torch.load(here / "model.pt"))
    s = cfg["serve"]
    rows = [[float(v) for v in l.split()] for l in sys.stdin][: s["max_batch"]]
    with torch.no_grad():
        p = torch.softmax(net(torch.tensor(rows)) / s["temperature"], 1)
    for r in p:
        print(cfg["labels"][int(r.argmax())], f"{r.max():.2f}", s["port"])


if __name__ == "__main__":
    main()
