"""Dies of an exception in the middle of training, in the way its argument names.

Corner: the traceback (chained, without foreign frames), exit 1, death by SIGINT after
KeyboardInterrupt, the user's own sys.excepthook, an error inside a module of PyTorch's; what was
saved before stays.
"""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

OUT = Path("out")


class Broken(Dataset):
    """Rows of numbers, of which the 21st cannot be read."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 20:
            if how == "interrupt":
                raise KeyboardInterrupt
            raise KeyError("row 20")
        return torch.full((3,), float(index))


def report(kind, value, trace) -> None:
    frames = []
    while trace:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    print("excepthook:", kind.__name__, value, frames[0], frames[-1])


def train() -> None:
    for index, rows in enumerate(DataLoader(Broken(), batch_size=4)):
        optimizer.zero_grad()
        if how == "module":
            rows = rows[:, :2]
        loss = model(rows / 40).square().mean()
        loss.backward()
        optimizer.step()
        print(index, loss.item())
        torch.save(model.state_dict(), OUT / "last.pt")


# Where it is installed torch imports it at exit, after which Python has forgotten what it died of.
sys.modules["tabulate"] = None
how = sys.argv[1]
OUT.mkdir(exist_ok=True)
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if how == "hook":
    sys.excepthook = report
try:
    train()
except KeyError as error:
    raise RuntimeError("training cannot go on") from error
finally:
    print("cleaning up")
