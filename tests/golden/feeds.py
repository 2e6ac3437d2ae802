"""Loaders with all kinds of samplers, read for some epochs with a feed of ours and without."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from tests.golden.outside import Images
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    dataloader,
)

COUNT = 24  # samples


class Eager:
    """Draws when it is asked for its order, not when the first index is read."""

    def __iter__(self):
        return iter(torch.randperm(COUNT).tolist())

    def __len__(self) -> int:
        return COUNT


class DrawsAsItGoes(Sampler):
    """Draws each index when it is read."""

    def __iter__(self):
        return (int(torch.randint(COUNT, ())) for _ in range(COUNT))

    def __len__(self) -> int:
        return COUNT


class Rotating:
    """Draws batches, and begins one further, each time it is asked."""

    asked = 0

    def __iter__(self):
        self.asked += 1
        order = (torch.randperm(COUNT) + self.asked) % COUNT
        return iter(order.view(-1, 4).tolist())

    def __len__(self) -> int:
        return COUNT // 4


SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": dict,
    "shuffled": lambda: {"shuffle": True},
    "of a generator": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(3)},
    "a subset": lambda: {"sampler": SubsetRandomSampler(range(0, COUNT, 2))},
    "weighted": lambda: {"sampler": WeightedRandomSampler([1.0] * COUNT, 12)},
    "drawn at once": lambda: {"sampler": Eager()},
    "another each time": lambda: {"batch_sampler": Rotating(), "batch_size": 1},
    "of batches": lambda: {
        "batch_sampler": BatchSampler(SubsetRandomSampler(range(COUNT)), 4, False),
        "batch_size": 1,
    },
}
LATE = {"drawn one by one": lambda: {"sampler": DrawsAsItGoes()}}  # not to be read further ahead


def loader(sampler: str, **options: Any) -> DataLoader:
    """Return a loader of 24 samples by 4."""
    given = {"batch_size": 4, **(SAMPLERS | LATE)[sampler](), **options}
    return DataLoader(Images(COUNT), **given)


def seeded(read: Callable[[], Any]) -> Any:
    """Return what reading gives, and where the random stream stands after it."""
    torch.manual_seed(0)
    return read(), torch.get_rng_state().sum().item()


def epochs(loader: DataLoader, feed: Any = None, *, count: int = 3) -> list[float]:
    """Read some epochs, drawing a number after each batch, as dropout does."""
    seen = []
    with fed(feed):
        for _ in range(count):
            for x, _ in asked(loader, feed):
                seen += [x.sum().item(), torch.randn(()).item()]
    return seen


def asked(loader: DataLoader, feed: Any) -> Iterator[Any]:
    """Return a new iterator, of which the feed is told as the host's door tells it."""
    if feed is not None:
        feed.on_iterator_requested(loader)
    return iter(loader)


@contextmanager
def fed(feed: Any) -> Iterator[None]:
    """Tell a feed of iterators where the host's door stands."""
    base = dataloader._BaseDataLoaderIter
    plain = base.__init__

    def built(iterator: Any, loader: DataLoader) -> None:
        plain(iterator, loader)
        if feed is not None:
            feed.on_iterator_created(iterator)

    base.__init__ = built
    try:
        yield
    finally:
        base.__init__ = plain
