"""Looks at itself: argv, `__main__`, file, path, frames, working directory; moves away and trains.

Corner: what a script sees of how it was started. With --depth it prints how many frames lie
below it, which in plain Python is none.
"""

import inspect
import os
import sys
from pathlib import Path

import torch
import whoami_part

HERE = Path.cwd()
main = sys.modules["__main__"]


def relative(path: str) -> str:
    return os.path.relpath(path, HERE)


def inner() -> list[str]:
    frames, frame = [], sys._getframe()
    while frame and frame.f_globals is globals():
        frames.append(frame.f_code.co_name)
        frame = frame.f_back
    return frames


if "--depth" in sys.argv:
    print("depth:", len(inspect.stack()), "below:", sys._getframe().f_back)
print("argv:", sys.argv)
print("name:", __name__, "package:", __package__, "spec:", __spec__)
print("file:", relative(__file__), "absolute:", os.path.isabs(__file__))
print("doc:", __doc__.splitlines()[0])
print("path[0]:", relative(sys.path[0]), "times in path:", sys.path.count(sys.path[0]))
print("main is me:", vars(main) is globals(), "loader:", type(__loader__).__name__)
print("names:", whoami_part.main_names())
print("asked by:", whoami_part.asked_by(), "frames:", inner())
print("neighbour:", relative(whoami_part.__file__), whoami_part.__name__)
print("source:", inspect.getsource(relative).splitlines()[0], inspect.getmodule(inner) is main)
print("flags:", sys.flags.optimize, sys.flags.isolated, sys.getrecursionlimit(), sys.gettrace())
print(
    "interpreter:", os.path.basename(sys.executable).rstrip("0123456789."), len(sys.orig_argv) > 1
)

os.makedirs("elsewhere/below", exist_ok=True)
os.chdir("elsewhere/below")
torch.manual_seed(2)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(3, 2)).square().sum().backward()
    optimizer.step()
torch.save(model.state_dict(), "moved.pt")
print("now in:", relative(os.getcwd()), os.listdir())
