"""What workers do to a training stands in tests/test_intervene.py."""

import multiprocessing

import pytest
import torch
from tests.golden.outside import Images
from torch.utils.data import DataLoader, SubsetRandomSampler, WeightedRandomSampler

from hotloop.probe.tryread import can_fork
from hotloop.probe.workers import Workers

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")
SAMPLERS = {
    "in order": dict,
    "shuffled": lambda: {"shuffle": True},
    "of a generator": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(3)},
    "a subset": lambda: {"sampler": SubsetRandomSampler(range(0, 24, 2))},
    "weighted": lambda: {"sampler": WeightedRandomSampler([1.0] * 24, 12)},
    "drawn at once": lambda: {"sampler": Eager()},
}


class Eager:
    """Draws when it is asked for its order, not when the first index is read."""

    def __iter__(self):
        return iter(torch.randperm(24).tolist())

    def __len__(self) -> int:
        return 24


def read(loader: DataLoader, feed: Workers | None) -> list[float]:
    """Read 3 epochs, drawing a number after each batch, as dropout does."""
    seen = []
    for _ in range(3):
        if feed is not None:
            feed.asked(loader)
        for x, _ in loader:
            seen += [x.sum().item(), torch.randn(()).item()]
    return seen


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_batches_and_draws_are_those_without_workers(sampler: str) -> None:
    from torch.utils.data import dataloader

    torch.manual_seed(0)
    expected = read(DataLoader(Images(24), batch_size=4, **SAMPLERS[sampler]()), None)
    torch.manual_seed(0)
    loader = DataLoader(Images(24), batch_size=4, **SAMPLERS[sampler]())
    feed = Workers(loader, count=2, ahead=2, pin=False)
    base = dataloader._BaseDataLoaderIter
    plain = base.__init__

    def built(iterator, loader) -> None:
        plain(iterator, loader)
        feed.built(iterator)

    base.__init__ = built  # where the host's door stands
    try:
        assert read(loader, feed) == expected
        pids = {worker.pid for worker in loader._iterator._workers}
        assert read(loader, feed)
        assert {worker.pid for worker in loader._iterator._workers} == pids
    finally:
        base.__init__ = plain
    loader._iterator = None
    assert not multiprocessing.active_children()
