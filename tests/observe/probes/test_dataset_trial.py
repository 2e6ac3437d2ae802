import os
import random
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from hotloop.observe.probes import dataset_trial
from hotloop.observe.probes.dataset_trial import Tried, can_fork, in_child, try_reading
from hotloop.observe.probes.rng_streams import positions

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")


class Drawing(Dataset):
    """Draws from the generator it is told to."""

    def __init__(self, draw=lambda: 0) -> None:
        self.draw, self.reads = draw, 0

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index):
        self.reads += 1
        self.draw()
        return torch.tensor([index])


def tried(data, **options) -> Tried:
    found = try_reading(DataLoader(data, batch_size=4, **options))
    assert isinstance(found, Tried), found
    return found


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: torch.randn(()), "torch"),
        (random.random, "random"),
        (np.random.rand, "numpy.random"),
    ],
)
def test_a_draw_from_a_global_generator_is_seen_and_happens_nowhere_else(draw, name) -> None:
    data = Drawing(draw)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    before = positions(loader)
    found = try_reading(loader)
    assert isinstance(found, Tried)
    assert found.moved == (name,)
    assert positions(loader) == before
    assert data.reads == 0


def test_a_process_with_many_open_files_may_ask(many_open_files) -> None:
    assert tried(Drawing()).samples == 4


def test_reading_without_draws_is_told_with_its_size() -> None:
    found = tried(Drawing())
    assert (found.moved, found.ahead, found.unsent) == ((), (), None)
    assert (found.samples, found.batch, found.sample_bytes) == (4, 4, 8)
    assert found.equal
    assert not found.views


def test_a_collate_function_that_draws_is_seen() -> None:
    assert tried(Drawing(), collate_fn=lambda rows: torch.rand(len(rows))).moved == ("torch",)


class DrawsAsItGoes(Sampler):
    def __iter__(self):
        return (int(torch.randint(20, ())) for _ in range(20))

    def __len__(self) -> int:
        return 20


def test_a_sampler_that_draws_between_batches_is_seen() -> None:
    assert tried(Drawing(), sampler=DrawsAsItGoes()).ahead == ("torch",)
    assert tried(Drawing(), shuffle=True).ahead == ()


def test_samples_that_differ_when_read_again_are_seen() -> None:
    class Counting(Drawing):
        def __getitem__(self, index):
            self.reads += 1
            return torch.tensor([self.reads])

    assert not tried(Counting()).equal


def test_a_batch_that_cannot_be_sent_is_seen() -> None:
    assert tried(Drawing(), collate_fn=lambda rows: lambda: rows).unsent


def test_a_data_set_that_fails_is_told_in_words() -> None:
    def fail() -> None:
        raise KeyError("no such file")

    found = try_reading(DataLoader(Drawing(fail)))
    assert isinstance(found, str)
    assert "KeyError" in found


def test_a_child_that_dies_is_told_in_words() -> None:
    assert in_child(lambda: os._exit(3)) == "a process that was to read samples died"


def test_what_a_data_set_prints_does_not_appear(capfd: pytest.CaptureFixture) -> None:
    tried(Drawing(lambda: print("reading", flush=True)))
    assert capfd.readouterr().out == ""


def test_a_sample_that_depends_on_the_one_before_is_seen() -> None:
    class Mixing(Drawing):
        last = 0

        def __getitem__(self, index):
            mixed, self.last = index + self.last, index
            return torch.tensor([mixed])

    assert tried(Mixing()).same is False


def test_a_data_set_that_asks_which_worker_it_is_is_seen() -> None:
    class Sharded(Drawing):
        def __getitem__(self, index):
            info = get_worker_info()
            return torch.tensor([index + (info.id if info else 0)])

    assert tried(Sharded()).same is False
    assert tried(Drawing()).same is True


def test_a_sample_that_is_changed_in_place_each_time_is_seen() -> None:
    class Shrinking(Drawing):
        def __init__(self) -> None:
            self.x = torch.ones(20, 3)

        def __getitem__(self, index):
            return self.x[index].mul_(0.5)

    found = tried(Shrinking())
    assert found.changes
    assert found.same is False


def test_what_stays_in_the_data_set_is_told_from_what_goes_on_changing_it() -> None:
    class Opening(Drawing):
        file = None

        def __getitem__(self, index):
            self.file = self.file or object()
            return torch.tensor([index])

    assert (tried(Opening()).keeps, tried(Opening()).changes) == (True, False)
    assert (tried(Drawing()).keeps, tried(Drawing()).changes) == (True, True)  # counts its reads
    plain = DataLoader([torch.tensor([n]) for n in range(20)], batch_size=4)
    found = try_reading(plain)
    assert isinstance(found, Tried)
    assert (found.keeps, found.changes, found.shares, found.seeks) == (False, False, False, False)


def test_a_batch_that_is_a_view_of_the_data_is_seen() -> None:
    views = DataLoader(torch.arange(20.0).view(10, 2), batch_size=None)
    rows = DataLoader([{"names": ["a", "b"]}] * 8, batch_size=4, collate_fn=lambda rows: rows)
    arrays = DataLoader(np.zeros((8, 2)), batch_size=4, collate_fn=list)
    for loader in (views, rows, arrays):
        found = try_reading(loader)
        assert isinstance(found, Tried)
        assert found.shares


def test_a_file_that_was_open_before_is_seen_and_stays_where_it_stood(tmp_path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(bytes(range(20)))

    class Seeking(Drawing):
        def __init__(self) -> None:
            self.rows = path.open("rb", buffering=0)

        def __getitem__(self, index):
            self.rows.seek(index)
            return torch.tensor(list(self.rows.read(1)))

    data = Seeking()
    data.rows.seek(7)
    assert tried(data).seeks
    assert data.rows.tell() == 7
    data.rows.close()


def test_a_batch_that_cannot_be_compared_or_pinned_is_told() -> None:
    assert tried(Drawing()).unpinned is None

    class Batch:
        def pin_memory(self):
            return self

    odd = tried(Drawing(), collate_fn=lambda rows: Batch())
    assert odd.same is None
    assert odd.unpinned == "a Batch pins itself"


def test_a_data_set_that_reads_whole_batches_is_read_so() -> None:
    class Whole(Drawing):
        def __getitem__(self, index):
            raise AssertionError

        def __getitems__(self, indices):
            return [torch.tensor([index]) for index in indices]

    found = tried(Whole())
    assert (found.samples, found.same) == (4, True)


class Lying(Dataset):
    """Gives out parts of what lies in memory."""

    def __init__(self, give) -> None:
        self.x, self.y, self.give = torch.rand(20, 3), np.arange(20.0), give

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index):
        return self.give(self, index)


@pytest.mark.parametrize(
    ("give", "views"),
    [
        (lambda data, index: data.x[index], True),
        (lambda data, index: {"x": data.x[index], "y": data.y[index : index + 1]}, True),
        (lambda data, index: (data.x[index], f"row {index}"), True),
        (lambda data, index: (data.x[index], torch.tensor([index])), False),
        (lambda data, index: data.x[index] * 2, False),
        (lambda data, index: index, False),
    ],
    ids=["tensor", "mapping", "with text", "partly made", "computed", "no tensor"],
)
def test_samples_that_are_views_of_what_lies_in_memory_are_told_from_those_that_are_made(
    give, views
) -> None:
    assert tried(Lying(give)).views is views


def test_a_child_that_goes_on_giving_signs_of_life_is_not_killed(monkeypatch) -> None:
    monkeypatch.setattr(dataset_trial, "LIMIT", 1.0)

    def work():
        for _ in range(8):
            time.sleep(0.2)
            dataset_trial.alive()
        return {"done": True}

    assert in_child(work) == {"done": True}
    assert "no sign of life" in in_child(lambda: time.sleep(60))
    dataset_trial.alive()  # does nothing outside of a child
