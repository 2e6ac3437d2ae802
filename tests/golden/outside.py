"""A small training script as a function, and a way to put techniques into it in this process."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

from hotloop import techniques
from hotloop.core.effect import Effect
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.diagnosis.apply_techniques import AppliedTechniques
from hotloop.jobs.request import parse_use
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits
from hotloop.techniques.base import anywhere

MACHINE = Hardware(device="cpu", name="a CPU", cores=2.0, host_memory_bytes=8 << 30)
UNGATED = [replace(technique, blocked=anywhere) for technique in techniques.ALL]


class Images(Dataset):
    """Samples that take time to make, and nothing from a generator."""

    def __init__(self, count: int = 48) -> None:
        own = torch.Generator().manual_seed(1)
        self.x, self.count = torch.randn(count, 3, 8, 8, generator=own), count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        until = time.perf_counter() + 2e-4
        while time.perf_counter() < until:
            pass
        return self.x[index].clone(), index % 4


class Augmented(Images):
    """Samples with noise from torch's own generator."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image + torch.randn(()), label


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop = nn.Linear(16, 16), nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(torch.relu(self.inner(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 4, 3, padding=1), nn.AdaptiveAvgPool2d(2)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv(x))).flatten(1)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class Result:
    """What a script leaves behind."""

    def __init__(self, losses: list[float], net: nn.Module, loader: Any, optimizer: Any) -> None:
        self.losses, self.net, self.loader, self.optimizer = losses, net, loader, optimizer

    def equals(self, other: "Result") -> bool:
        mine, theirs = self.net.state_dict(), other.net.state_dict()
        same = mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)
        return same and self.losses == other.losses


def script(
    data: Dataset | None = None,
    *,
    epochs: int = 3,
    optimizer: Callable[..., Any] = torch.optim.AdamW,
    net: Callable[[], nn.Module] = Net,
    **options: Any,
) -> Result:
    """Train for three epochs with dropout and shuffling, evaluating after each."""
    torch.manual_seed(0)
    data = data or Images()
    loader = DataLoader(data, batch_size=8, shuffle=True, **options)
    held_out = DataLoader(data, batch_size=16)
    model, losses = net(), list[float]()
    update = optimizer(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            loss = cross_entropy(model(x), y)
            update.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            losses.append(sum(cross_entropy(model(x), y).item() for x, y in held_out))
    return Result(losses, model, loader, update)


def put_into(call: Callable[[], Any], *uses: str) -> tuple[Any, dict[str, Effect]]:
    """Call a script with techniques put in; return what it returns, and what came of each."""
    plan = Plan(micro_batch=1)
    for use in map(parse_use, uses):
        plan = plan.plus(use.id, **dict(use.choice))
    put_in = AppliedTechniques(plan, {}, hardware=MACHINE, known=UNGATED)
    observer = ScriptObserver(StopLimits(full=True, probing=False))
    put_in.join(observer)
    observer.start()
    try:
        returned = call()
        effects = {effect.technique.split("(")[0]: effect for effect in put_in.effects()}
    finally:
        observer.finish()
    assert observer.hooks.fault is None, observer.hooks.fault
    return returned, effects
