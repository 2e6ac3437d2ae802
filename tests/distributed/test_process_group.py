"""A group that meets, agrees, writes together and notices who is gone; ranks are threads here."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from hotloop.core.errors import ConfigError, DataError, LostRankError, WriteError
from hotloop.core.storage.files import DISK, check_folder
from hotloop.distributed import process_group as module
from hotloop.distributed.process_group import TorchProcessGroup
from hotloop.engine.checkpoint.multi_rank_writer import write_together
from hotloop.engine.rank_agreement import Now, RankAgreement, Share
from hotloop.engine.signals import Dropped
from hotloop.session.ranks import SINGLE_PROCESS


class Hosts:
    """The gloo group of the hosts, as a barrier of threads."""

    def __init__(self, world):
        self.barrier, self.values = threading.Barrier(world), {}

    def gather(self, rank, values):
        self.values[rank] = list(values)
        self.barrier.wait(10)
        found = [self.values[each] for each in sorted(self.values)]
        self.barrier.wait(10)
        return found


def ranks(world, monkeypatch):
    """Return the ranks of a group whose store is real."""
    monkeypatch.setattr(module.dist, "new_group", lambda **_: None)
    monkeypatch.setattr(module.atexit, "register", lambda _: None)
    store, hosts = dist.HashStore(), Hosts(world)
    made = [
        TorchProcessGroup(rank=r, world=world, backend="gloo", store=store) for r in range(world)
    ]
    for each in made:
        monkeypatch.setattr(each, "gather", lambda v, r=each.rank: hosts.gather(r, v))
    return made


def on_each(group, call):
    """Return what a call comes to on each rank: a value or an exception."""

    def run(rank):
        try:
            return call(rank)
        except Exception as error:  # noqa: BLE001 - it is looked at
            return error

    with ThreadPoolExecutor(len(group)) as pool:
        return list(pool.map(run, group))


def test_values_come_in_the_order_of_ranks(monkeypatch):
    group = ranks(3, monkeypatch)
    for _ in range(2):
        assert (
            on_each(group, lambda rank: rank.exchange({"of": rank.rank}))
            == [[{"of": 0}, {"of": 1}, {"of": 2}]] * 3
        )


def test_what_fails_on_one_fails_on_all_and_is_told_once(monkeypatch):
    group = ranks(3, monkeypatch)

    def prepare(rank):
        with rank.together():
            if rank.rank == 1:
                raise DataError("no such file")
        return "went on"

    found = on_each(group, prepare)
    assert [type(each) for each in found] == [DataError] * 3
    assert str(found[0]) == "rank 1: no such file", "the first one tells it"
    assert [each.is_told for each in found] == [False, True, True]


def test_what_fails_alike_everywhere_names_no_rank(monkeypatch):
    group = ranks(2, monkeypatch)

    def prepare(rank):
        with rank.together():
            raise ConfigError("unknown key")

    assert {str(each) for each in on_each(group, prepare)} == {"unknown key"}


def test_waiting_ends_with_a_signal(monkeypatch):
    first, _ = ranks(2, monkeypatch)
    first.signalled = lambda: 3.0
    with pytest.raises(LostRankError):
        first.take("never", patience=0.0)
    first.signalled = lambda: 3.0 + time.monotonic() - began
    began = time.monotonic()
    with pytest.raises(LostRankError):
        first.take("never", patience=3.1)
    assert time.monotonic() - began >= 0.1, "what was begun together has its time"


def test_decisions_are_the_first_ranks_and_signals_are_anybodys(monkeypatch):
    group = ranks(2, monkeypatch)
    looks = [Now(save_due=True, copies=False), Now(signal=15, best_due=True, out_of_time=True)]
    own = [Share(targets=3, samples=1, tokens=4), Share(targets=5, samples=2, tokens=8)]

    def agree(rank):
        accord = RankAgreement(rank, lambda: looks[rank.rank])
        assert accord.now() == Now()
        return accord.window(own[rank.rank]), accord.now()

    whole, now = Share(targets=8, samples=3, tokens=12), Now(signal=15, save_due=True, copies=False)
    assert on_each(group, agree) == [(whole, now)] * 2


def test_an_evaluation_is_dropped_by_all(monkeypatch):
    group = ranks(2, monkeypatch)

    def poll(rank):
        accord = RankAgreement(rank, lambda: Now(signal=2 if rank.rank else None))
        try:
            accord.poll()
        except Dropped:
            return accord.now().signal
        return None

    assert on_each(group, poll) == [2, 2]


def test_a_process_alone_asks_itself():
    looks = iter([Now(), Now(signal=2)])
    accord = RankAgreement(SINGLE_PROCESS, lambda: next(looks))
    own = Share(targets=1, samples=1, tokens=1)
    assert accord.window(own) is own
    assert [accord.now().signal, accord.now().signal] == [None, 2]


def test_a_folder_is_there_once_all_have_written(monkeypatch, tmp_path):
    group = ranks(3, monkeypatch)
    target = tmp_path / "step-00000001"

    def write(rank):
        files = {f"part-{rank.rank}": [bytes([rank.rank]) * 10]}
        return write_together(target, files, disk=DISK, ranks=rank)

    monkeypatch.setattr("hotloop.engine.checkpoint.multi_rank_writer._numbers", Numbers())
    assert on_each(group, write) == [30] * 3
    assert check_folder(target) == []
    assert sorted(path.name for path in target.glob("part-*")) == ["part-0", "part-1", "part-2"]


def test_what_one_cannot_write_is_nobodys(monkeypatch, tmp_path):
    group = ranks(3, monkeypatch)

    def broken():
        yield b"half"
        raise OSError(28, "No space left on device")

    def write(rank):
        files = {f"part-{rank.rank}": broken() if rank.rank == 2 else [b"whole"]}
        return write_together(tmp_path / "step", files, disk=DISK, ranks=rank)

    monkeypatch.setattr("hotloop.engine.checkpoint.multi_rank_writer._numbers", Numbers())
    found = on_each(group, write)
    assert all(isinstance(each, WriteError) and "rank 2" in str(each) for each in found)
    assert all("No space left" in str(each) for each in found)
    assert list(tmp_path.iterdir()) == [], "nothing half stays"


def test_a_folder_that_a_machine_does_not_see_is_told(monkeypatch, tmp_path):
    first, second = ranks(2, monkeypatch)
    here, there = tmp_path / "here", tmp_path / "there"

    def write(rank):
        target = (here if rank is first else there) / "step"
        return write_together(target, {f"part-{rank.rank}": [b"x"]}, disk=DISK, ranks=rank)

    monkeypatch.setattr("hotloop.engine.checkpoint.multi_rank_writer._numbers", Numbers())
    found = on_each([first, second], write)
    assert all("a disk that all machines share" in str(each) for each in found)


class Numbers:
    """Counts for each thread by itself: each stands for a process."""

    def __init__(self):
        self.local = threading.local()

    def __next__(self):
        self.local.at = getattr(self.local, "at", -1) + 1
        return self.local.at
