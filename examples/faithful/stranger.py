"""Uses a library that warns, with every `stacklevel`, wherever PyTorch calls the script back.

Corner: file and line of a warning, which are those of its caller; how often it is shown; the last
frame of the stack, which is the script's. The warnings are compared.
"""

import io
import os
from pathlib import Path

import torch
from stranger_lib import warn
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler


class Rows(Dataset):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        warn("a row")
        return torch.full((4,), float(index)), index % 2


class Order(Sampler):
    def __init__(self) -> None:
        pass

    def __len__(self) -> int:
        return 32

    def __iter__(self):
        warn("an order")
        yield from range(32)


def collate(rows):
    warn("a batch")
    return torch.stack([row for row, _ in rows]), torch.tensor([label for _, label in rows])


class Loader(DataLoader):
    @property
    def multiprocessing_context(self):
        warn("a constructor's look")
        return None

    @multiprocessing_context.setter
    def multiprocessing_context(self, context) -> None:
        warn("a constructor")

    def __iter__(self):
        warn("an iterator")
        return super().__iter__()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        warn("a function")
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        warn("its gradient")
        return 2 * gradient


class Inner(nn.Module):
    def forward(self, x):
        warn("an inner module")
        return Doubled.apply(x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.inner = nn.Linear(4, 2), Inner()

    def forward(self, x):
        warn("a module")
        return self.inner(self.layer(x))


class Descent(torch.optim.SGD):
    def add_param_group(self, group) -> None:
        warn("an optimizer")
        super().add_param_group(group)

    def step(self, closure=None):
        warn("a step")
        return super().step(closure)


class Rate(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        warn("a rate")
        return [0.1]

    def _initial_step(self) -> None:
        warn("a scheduler")
        super()._initial_step()


class Kept:
    def __reduce__(self):
        warn("a save")
        return int, ()


class Here(os.PathLike):
    def __fspath__(self) -> str:
        warn("a path")
        return __file__


def opener(name, flags):
    warn("a file")
    return os.open(name, flags)


def train() -> None:
    net = Net()
    optimizer = Descent(net.parameters(), lr=0.1)
    rate = Rate(optimizer)
    loader = Loader(Rows(), batch_size=8, sampler=Order(), collate_fn=collate)
    for _ in range(2):
        for x, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), labels).backward()
            optimizer.step()
            rate.step()
    net.eval()
    with torch.no_grad():
        print(net(x).sum().item())
    torch.autograd.grad(net(x).sum(), net.layer.weight)
    torch.autograd.backward(net(x).sum(), create_graph=True)


def warned_by_torch_and_python() -> None:
    weights = [torch.zeros(1, requires_grad=True)]
    late = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(weights, lr=1), 1)
    late.step()  # before the optimizer's
    late.step(3)
    DataLoader(Rows(), num_workers=512)
    DistributedSampler(Rows(), num_replicas=1, rank=0).set_epoch(1)
    for buffering in (1, 1):
        open(__file__, "rb", buffering).close()


torch.manual_seed(0)
train()
warned_by_torch_and_python()
torch.save(Kept(), io.BytesIO())
open(Here()).close()
open(__file__, opener=opener).close()
print(len(Path(__file__).read_text()) > 0)
warn("the script")
