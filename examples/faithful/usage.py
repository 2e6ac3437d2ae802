"""Options that hotloop has too (--with, --json, --steps, --out), and argparse's own exits.

Corner: every word after the script is the script's; a usage error exits 2, --help exits 0.
"""

import argparse
import sys
from pathlib import Path

import torch

print("argv:", sys.argv[1:])
options = argparse.ArgumentParser(description="a script with options of its own")
options.add_argument("--with", dest="rule", choices=["sgd", "adam"], default="sgd")
options.add_argument("--steps", type=int, default=5)
options.add_argument("--json", type=Path)
options.add_argument("--out", type=Path, default=Path("out"))
options.add_argument("-m", action="store_true", help="momentum")
options.add_argument("rest", nargs="*")
given = options.parse_args()
print("given:", {**vars(given), "out": given.out.as_posix(), "json": str(given.json)})

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
build = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[given.rule]
extra = {"momentum": 0.9} if given.m and given.rule == "sgd" else {}
optimizer = build(model.parameters(), lr=0.05, **extra)
for step in range(given.steps):
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
given.out.mkdir(exist_ok=True)
torch.save(model.state_dict(), given.out / "usage.pt")
if given.json:
    given.json.write_text(f'{{"loss": {loss.item()!r}}}\n')
