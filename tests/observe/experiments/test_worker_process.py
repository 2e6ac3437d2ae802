"""A worker process is timed beside the steps of the script."""

import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from hotloop.observe.experiments import worker_process
from hotloop.observe.experiments.variants import NOT_REACHED
from hotloop.observe.experiments.worker_process import NoWorkers, WorkerProcess
from hotloop.observe.whatif.batch_replay import Loaders
from hotloop.observe.whatif.without_one_cost import Patches


class Slow(Dataset[torch.Tensor]):
    """Rows that take 10 ms each."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.01)
        return torch.tensor([float(index)])


class Broken(Slow):
    """Rows that only the process that made them can read."""

    def __getitem__(self, index: int) -> torch.Tensor:
        if torch.utils.data.get_worker_info() is not None:
            raise ValueError("no worker may read")
        return super().__getitem__(index)


@pytest.fixture
def loaders():
    patches = Patches()
    yield Loaders(patches, switched=True)
    patches.undo()


def train(loaders: Loaders, loader: DataLoader[torch.Tensor]) -> None:
    for batch, _ in zip(loader, range(4), strict=False):
        assert batch is not None
        loaders.backward()
        loaders.step()


def test_the_time_that_a_worker_takes_is_measured(loaders):
    loader = DataLoader(Slow(), batch_size=2)
    variant = WorkerProcess(loaders)
    train(loaders, loader)
    assert variant.prepare() is None
    assert variant.measured_apart(0.0, 0.02).changed > 0.005  # two of the first are ahead


def test_what_is_left_of_a_wait_is_what_the_step_does_not_hide(loaders, monkeypatch):
    pace = worker_process._Pace(reading=0.02, taking=0.001)
    monkeypatch.setattr(worker_process, "_measured", lambda *_: pace)
    loader = DataLoader(Slow(), batch_size=2)
    variant = WorkerProcess(loaders)
    assert variant.prepare() == NOT_REACHED
    train(loaders, loader)
    assert variant.prepare() is None
    hidden = variant.measured_apart(0.12, 0.02)  # 100 ms of computing hide 20 ms of reading
    first = 0.02 / len(loader)  # of an epoch: nothing is ahead
    assert hidden.changed == pytest.approx(0.001 + first)
    bare = variant.measured_apart(0.025, 0.02)  # 5 ms do not
    assert bare.changed == pytest.approx(0.015 + first)
    assert bare.step(0.025) == pytest.approx(0.02 + first)


def test_a_data_set_that_no_worker_reads_says_so(loaders):
    loader = DataLoader(Broken(), batch_size=2)
    train(loaders, loader)
    assert "no worker may read" in (WorkerProcess(loaders).prepare() or "")


def test_reading_without_workers_is_measured_in_the_loops_process(loaders):
    loader = DataLoader(Slow(), batch_size=2, num_workers=2)
    variant = NoWorkers(loaders)
    train(loaders, loader)
    assert variant.prepare() is None
    part = variant.measured_apart(0.1, 0.05)
    assert part.seconds == 0.05
    assert 0.02 <= part.changed < 0.05  # two rows of 10 ms
    assert part.step(0.1) < 0.1


@pytest.mark.parametrize("batches", [2, 4])
def test_epochs_of_few_batches_are_read_too(loaders, batches):
    loader = DataLoader(Slow(), batch_size=64 // batches)
    variant = WorkerProcess(loaders)
    train(loaders, loader)
    assert variant.prepare() is None
