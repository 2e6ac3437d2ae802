import time
from collections import namedtuple

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from hotloop.observe.whatif.batch_replay import KEPT, Loaders, alone, rebuilt
from hotloop.observe.whatif.without_one_cost import Patches


class Numbers(Dataset):
    """Counts how often it is read."""

    def __init__(self, length: int = 20) -> None:
        self.length, self.reads = length, 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        self.reads += 1
        return {"x": torch.tensor([float(index)])}


class Stream(IterableDataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self):
        return iter(torch.arange(self.length))


@pytest.fixture
def patches():
    made = Patches()
    yield made
    made.undo()


def epoch(loaders: Loaders, loader: DataLoader) -> list:
    """Train on every batch."""
    seen = []
    for batch in loader:
        seen.append(batch)
        loaders.backward()
        loaders.step()
    return seen


def test_the_first_batches_are_replayed_and_epochs_stay_as_long(patches: Patches):
    loaders, data = Loaders(patches, replay=True), Numbers()
    loader = DataLoader(data, batch_size=2)
    first, second = epoch(loaders, loader), epoch(loaders, loader)
    assert (len(first), len(second)) == (10, 10)
    assert data.reads == 2 * KEPT
    assert loaders.replayed == 20 - KEPT
    assert [batch["x"][0].item() for batch in second[:KEPT]] == [0, 2, 4, 6]


def test_without_replay_everything_is_read(patches: Patches):
    loaders, data = Loaders(patches), Numbers()
    epoch(loaders, DataLoader(data, batch_size=2))
    assert data.reads == 20
    assert loaders.replayed == 0


def test_an_epoch_shorter_than_what_is_kept_is_replayed_when_it_has_been_seen(patches: Patches):
    loaders, data = Loaders(patches, replay=True), Numbers(4)
    loader = DataLoader(data, batch_size=2)
    assert [len(epoch(loaders, loader)) for _ in range(3)] == [2, 2, 2]
    assert data.reads == 4


def test_loaders_of_an_evaluation_are_read(patches: Patches):
    loaders, data, other = Loaders(patches, replay=True), Numbers(), Numbers()
    train, evaluate = DataLoader(data), DataLoader(other)
    for _ in range(2):
        epoch(loaders, train)
        with torch.no_grad():
            assert len(list(evaluate)) == 20
    assert other.reads == 40
    assert [loader for loader, _ in loaders.training] == [train]


def test_the_batches_that_workers_have_ready_are_counted(patches: Patches):
    loaders = Loaders(patches)
    batches = iter(DataLoader(Numbers(), num_workers=1, prefetch_factor=3))
    next(batches)
    assert loaders.stock == {}  # it does not feed training yet
    loaders.backward()
    loaders.step()
    deadline = time.monotonic() + 20
    while loaders.stock != {id(batches): 3}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_batches_of_a_step_are_counted(patches: Patches):
    loaders, loader = Loaders(patches), DataLoader(Numbers())
    for number, _ in enumerate(loader, 1):
        loaders.backward()
        if number % 4 == 0:
            loaders.step()
    assert loaders.training == [(loader, 4.0)]


def test_a_loader_built_anew_for_each_epoch_is_one_loader(patches: Patches):
    loaders, data = Loaders(patches, replay=True), Numbers(6)
    for _ in range(3):
        assert len(epoch(loaders, DataLoader(data))) == 6
    assert data.reads == KEPT
    assert loaders.training == []  # the last one is gone too


def test_a_stream_ends_where_it_ended(patches: Patches):
    loaders, loader = Loaders(patches, replay=True), DataLoader(Stream(3))
    assert [len(epoch(loaders, loader)) for _ in range(3)] == [3, 3, 3]


def test_workers_are_not_started_for_a_replay(patches: Patches):
    loaders, loader = Loaders(patches, replay=True), DataLoader(Numbers(6), num_workers=1)
    assert len(epoch(loaders, loader)) == 6
    batches = iter(loader)
    assert not hasattr(batches, "_workers")
    assert len(list(batches)) == 6


def test_what_the_script_does_to_a_batch_does_not_come_back(patches: Patches):
    loaders, loader = Loaders(patches, replay=True), DataLoader(Numbers(KEPT))
    for _ in range(4):
        for number, batch in enumerate(loader):
            assert batch.pop("x").add_(100).item() == number + 100
            loaders.backward()


def test_a_batch_is_rebuilt_in_its_own_types():
    pair = namedtuple("Pair", "a b")
    batch = {"a": [torch.ones(1), pair(1, torch.ones(1))], "b": ("text", None)}
    new = rebuilt(batch, lambda tensor: tensor + 1)
    assert new == {"a": [torch.tensor([2.0]), pair(1, torch.tensor([2.0]))], "b": ("text", None)}
    assert isinstance(new["a"][1], pair)
    assert new["a"] is not batch["a"]


class Slow(Numbers):
    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        time.sleep(0.002)
        return super().__getitem__(index)


def test_a_loader_alone_takes_what_its_batches_take():
    times = alone(DataLoader(Slow(30), batch_size=2), count=20, warm=2)
    assert len(times) == 20
    assert 0.004 <= sorted(times)[10] < 0.02


def test_workers_that_deliver_in_bursts_are_averaged():
    loader = DataLoader(Slow(60), batch_size=2, num_workers=2)
    times = alone(loader, count=10, warm=4)
    assert len(times) == 10
    assert times[0] == times[1]
    assert sorted(times)[5] > 0.001  # a batch may lie ready where this process was held up


def test_an_epoch_shorter_than_its_warm_up_gives_nothing():
    assert alone(DataLoader(Numbers(3)), count=5, warm=5) == []
