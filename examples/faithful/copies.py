"""Copies, pickles and inspects loader, optimizer and model; an optimizer class of the user's own.

Corner: the script's objects stay the script's: same types, attributes, signatures, pickle bytes.
"""

import copy
import hashlib
import inspect
import io
import pickle
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset


class SignSgd(torch.optim.Optimizer):
    """Moves each weight by the sign of its gradient, and counts."""

    def __init__(self, params, lr: float = 0.01) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["count"] = state.get("count", 0) + 1
                parameter.sub_(group["lr"] * parameter.grad.sign())


class LoudLoader(DataLoader):
    """A loader that says when it starts."""

    def __iter__(self):
        print("loader starts")
        return super().__iter__()


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def run(model, optimizer, loader) -> float:
    for rows, targets in loader:
        optimizer.zero_grad()
        loss = (model(rows).squeeze(1) - targets).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
x = torch.randn(64, 5)
loader = LoudLoader(TensorDataset(x, x.sum(1)), batch_size=16, shuffle=True)
model = torch.nn.Linear(5, 1)
mine = SignSgd(model.parameters(), lr=0.02)
theirs = torch.optim.Adam(model.parameters(), lr=0.02)
print("losses:", run(model, mine, loader), run(model, theirs, loader))

for thing in (loader, iter(loader), mine, theirs, model):
    print(type(thing).__module__, type(thing).__qualname__, sorted(vars(thing)))
for function in (DataLoader.__init__, torch.autograd.backward, torch.Tensor.backward, theirs.step):
    print(function.__qualname__, list(inspect.signature(function).parameters))
print("dir:", [name for name in dir(theirs) if "hotloop" in name] or "nothing foreign")

again = pickle.loads(pickle.dumps(loader))
print("again:", type(again).__name__, len(again), torch.equal(again.dataset.tensors[0], x))
model_2, theirs_2 = copy.deepcopy((model, theirs))
print(
    "apart:",
    model_2.weight is not model.weight,
    theirs_2.param_groups[0]["params"][0] is model_2.weight,
)
torch.manual_seed(9)
one = run(model, theirs, loader)
torch.manual_seed(9)
print("same from the copies:", one == run(model_2, theirs_2, again), one)
buffer = io.BytesIO()
torch.save(theirs, buffer)
print("whole optimizer:", short(buffer.getvalue()), short(pickle.dumps(mine.state_dict())))
fresh = SignSgd(model.parameters())
fresh.load_state_dict(mine.state_dict())
print("counts:", [state["count"] for state in fresh.state_dict()["state"].values()])
Path("out").mkdir(exist_ok=True)
torch.save({"model": model.state_dict(), "theirs": theirs.state_dict()}, "out/copies.pt")
