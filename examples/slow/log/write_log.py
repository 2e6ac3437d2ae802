"""A regression that writes training.jsonl, whose epoch_time leaves most of the epoch out.

hotloop doctor --log training.jsonl
"""

import json
import time
from pathlib import Path

import torch
from torch import nn

OUT = Path(__file__).parent / "training.jsonl"


def main():
    torch.manual_seed(0)
    x = torch.randn(4000, 64)
    y = x[:, :8].sum(1, keepdim=True).tanh() + 0.1 * torch.randn(4000, 1)
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    best = float("inf")
    with OUT.open("w") as log:
        for epoch in range(12):
            began = time.perf_counter()
            for rows in torch.randperm(3000).split(100):
                loss = nn.functional.mse_loss(model(x[rows]), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            took = time.perf_counter() - began  # the epoch is not over: see below

            with torch.no_grad():
                held_out = [
                    nn.functional.mse_loss(model(x[3000 + i]), y[3000 + i]).item()
                    for i in range(1000)
                ]  # one row at a time
            valid = sum(held_out) / len(held_out)
            if valid < best:
                best = valid
                torch.save([model.state_dict(), optimizer.state_dict()], OUT.with_suffix(".pt"))
            record = {"epoch": epoch, "loss": round(loss.item(), 4), "valid": round(valid, 4)}
            record |= {"epoch_time": round(took, 4), "timestamp": round(time.time(), 3)}
            log.write(json.dumps(record) + "\n")
    OUT.with_suffix(".pt").unlink()


if __name__ == "__main__":
    main()
