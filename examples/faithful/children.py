"""Starts children: itself again with sys.executable, a -c program, torch.multiprocessing.spawn.

Corner: a child is a plain script too; its output, exit code and files belong to the user.
"""

import subprocess
import sys
from pathlib import Path

import torch

OUT = Path("out")


def train(seed: int, name: str) -> float:
    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), OUT / f"{name}.pt")
    return loss.item()


def rank(index: int, base: int) -> None:
    train(base + index, f"rank-{index}")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    again = [sys.executable, __file__, "--child", "7"]
    child = subprocess.run(again, capture_output=True, text=True, check=False)
    print("child:", child.returncode, child.stdout.split(), len(child.stderr))
    code = "import sys; print(sys.argv, sys.path[0] == '', __name__); sys.exit(5)"
    short = subprocess.run(
        [sys.executable, "-c", code, "x"], capture_output=True, text=True, check=False
    )
    print("short:", short.returncode, short.stdout.strip())
    torch.multiprocessing.spawn(rank, args=(20,), nprocs=2)
    print("parent:", train(1, "parent"), sorted(path.name for path in OUT.iterdir()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print("child", sys.argv[1:], train(int(sys.argv[2]), "child"))
        sys.exit(6)
    main()
