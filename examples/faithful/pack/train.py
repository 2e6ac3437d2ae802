"""Run as `python -m faithful.pack.train`: relative imports, package and spec names.

Corner: with -m, argv[0] is the file, path[0] the working directory, `__package__` the folder.
"""

import os
import pickle
import sys
from pathlib import Path

import torch

from .net import Net

print("name:", __name__, "package:", __package__, "spec:", __spec__.name)
print(
    "argv:", [os.path.relpath(sys.argv[0]), *sys.argv[1:]], "path[0]:", os.path.relpath(sys.path[0])
)
print("net:", Net.__module__, "main is me:", vars(sys.modules["__main__"]) is globals())
print("not imported twice:", "faithful.pack.train" not in sys.modules)
torch.manual_seed(0)
model = Net()
optimizer = torch.optim.NAdam(model.parameters(), lr=0.02)
for step in range(10):
    x = torch.randn(16, 3)
    loss = torch.nn.functional.l1_loss(model(x), x.prod(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
out = Path(sys.argv[1])
out.mkdir(exist_ok=True)
torch.save(pickle.loads(pickle.dumps(model)).state_dict(), out / "net.pt")
