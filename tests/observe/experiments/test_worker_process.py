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


class Where(Slow):
    """Rows that say whether a worker has read them."""

    def __getitem__(self, index: int) -> torch.Tensor:
        is_worker = torch.utils.data.get_worker_info() is not None
        return torch.tensor([float(index), float(is_worker)])


def test_without_workers_the_loops_process_reads(loaders):
    loader = DataLoader(Where(), batch_size=2, num_workers=1, collate_fn=torch.stack)
    variant = NoWorkers(loaders)
    assert variant.prepare() == NOT_REACHED
    train(loaders, loader)
    assert variant.prepare() is None
    seen = []
    for number, batch in enumerate(loader):
        loaders.backward()
        loaders.step()
        seen.append(int(batch[0, 1]))
        if number == 3:
            variant.switch_on()
        if number == 8:
            variant.switch_off()
    assert seen[:12] == [1] * 4 + [0] * 5 + [1] * 3
    assert len(seen) == 32


def test_an_epoch_that_ends_without_workers_gives_what_they_had_read_ahead(loaders):
    loader = DataLoader(Where(), batch_size=2, num_workers=1)
    train(loaders, loader)
    variant = NoWorkers(loaders)
    assert variant.prepare() is None
    rows = []
    for number, batch in enumerate(loader):
        loaders.backward()
        rows += batch[:, 0].tolist()
        if not number:
            variant.switch_on()
    assert sorted(rows) == list(range(64))


def test_an_epoch_of_one_batch_is_read_without_workers_too(loaders):
    loader = DataLoader(Where(), batch_size=64, num_workers=1)
    train(loaders, loader)
    assert NoWorkers(loaders).prepare() is None


class Owned(Slow):
    """Rows that only a worker can read."""

    def __getitem__(self, index: int) -> torch.Tensor:
        if torch.utils.data.get_worker_info() is None:
            raise ValueError("no handle here")
        return super().__getitem__(index)


def test_a_data_set_that_only_workers_read_says_so(loaders):
    loader = DataLoader(Owned(), batch_size=32, num_workers=1)
    train(loaders, loader)
    assert NoWorkers(loaders).prepare() == "the loop's process does not read it: no handle here"


def test_no_block_is_steady_while_a_short_epoch_goes_on_without_workers(loaders):
    loader = DataLoader(Where(), batch_size=16, num_workers=1)
    train(loaders, loader)
    variant = NoWorkers(loaders)
    assert variant.prepare() is None
    variant.switch_on()
    batches = iter(loader)
    assert loaders.stock == {}
    variant.switch_off()
    first = loaders.stock
    assert loaders.stock != first
    del batches
    assert loaders.stock == {}


def test_without_workers_a_short_epoch_starts_none(loaders, monkeypatch):
    loader = DataLoader(Where(), batch_size=32, num_workers=1)
    train(loaders, loader)
    variant = NoWorkers(loaders)
    assert variant.prepare() is None
    variant.switch_on()
    monkeypatch.setattr("torch.multiprocessing.Process", None)  # no worker can start
    assert [batch[:, 1].sum().item() for batch in loader] == [0, 0]
    variant.switch_off()
    assert len(loaders.training) == 1


@pytest.mark.parametrize("batches", [2, 4])
def test_epochs_of_few_batches_are_read_too(loaders, batches):
    loader = DataLoader(Slow(), batch_size=64 // batches)
    variant = WorkerProcess(loaders)
    train(loaders, loader)
    assert variant.prepare() is None
