import os
import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from hotloop.probe.tryread import Tried, can_fork, in_child, positions, try_reading

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


def test_reading_without_draws_is_told_with_its_time_and_size() -> None:
    found = tried(Drawing())
    assert (found.moved, found.ahead, found.unsent) == ((), (), None)
    assert (found.samples, found.batch, found.sample_bytes) == (4, 4, 8)
    assert found.equal
    assert 0 < found.seconds <= found.batch_seconds


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
