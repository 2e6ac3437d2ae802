from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.session.accumulation_windows import AccumulationWindows, Position, batch_at, dealt
from hotloop.session.batch import Batch


class Numbers:
    """Sample i of an epoch is the number i."""

    fingerprint = "numbers"

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def ids(self, epoch, first, count):
        return np.arange(first, first + count)

    def batch(self, epoch, first, count) -> Batch:
        tensor = torch.arange(first, first + count)
        return Batch(tensors={"x": tensor}, samples=count, tokens=count, targets=count)


def walk(feed: AccumulationWindows, micro_batch: int, steps: int):
    at, seen = Position(), []
    for _ in range(steps):
        window = feed.window(at, micro_batch)
        seen.append((at.epoch, [int(i) for batch in window for i in batch.tensors["x"]]))
        assert max(batch.samples for batch in window) <= micro_batch
        at = feed.after(at)
    return at, seen


@settings(max_examples=100, deadline=None)
@given(
    count=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    micro_batch=st.integers(1, 20),
    drop_last=st.booleans(),
)
def test_an_epoch_has_each_sample_once_and_steps_the_leftover(
    count, batch_size, micro_batch, drop_last
):
    feed = AccumulationWindows(samples=Numbers(count), batch_size=batch_size, drop_last=drop_last)
    if feed.steps_per_epoch == 0:
        assert drop_last
        assert count < batch_size
        return
    at, seen = walk(feed, micro_batch, 2 * feed.steps_per_epoch)
    assert (at.epoch, at.sample, at.step) == (2, 0, 2 * feed.steps_per_epoch)
    for epoch in (0, 1):
        used = [i for e, ids in seen if e == epoch for i in ids]
        assert used == list(range(count - count % batch_size if drop_last else count))


def test_the_micro_batch_does_not_change_which_samples_a_step_takes():
    feed = AccumulationWindows(samples=Numbers(50), batch_size=12, drop_last=False)
    assert walk(feed, 12, 9) == walk(feed, 5, 9) == walk(feed, 1, 9)


def test_a_window_is_cut_as_the_job_says():
    def in_halves(samples, epoch, first, count, micro_batch):
        assert (len(samples), epoch, micro_batch) == (50, 0, 3)
        return [(first, count // 2), (first + count // 2, count - count // 2)]

    feed = AccumulationWindows(samples=Numbers(50), batch_size=12, drop_last=False, cut=in_halves)
    assert [batch.samples for batch in feed.window(Position(), 3)] == [6, 6]
    assert feed.micro_batches(Position(sample=48), 3) == [(48, 2)]  # so few fit anyway


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "pieces", [[(0, 4)], [(0, 4), (4, 4)], [(0, 2), (2, 7), (9, 1)], [(3, 1)], [(0, 1), (1, 1)]]
)
def test_ranks_share_a_window_without_losing_or_repeating_a_sample(pieces, ranks):
    shares = dealt(pieces, ranks)
    assert len(shares) == ranks
    assert len({len(share) for share in shares}) == 1, "all make as many passes"
    taken = sorted(at for share in shares for first, n in share for at in range(first, first + n))
    assert taken == [at for first, n in pieces for at in range(first, first + n)]


def test_pieces_are_dealt_to_and_fro():
    by_length = [(0, 1), (1, 2), (3, 3), (6, 4)]  # the longest rows first
    assert dealt(by_length, 2) == [[(0, 1), (6, 4)], [(1, 2), (3, 3)]]


def test_a_place_of_nothing_is_a_batch_that_does_not_count():
    samples = Numbers(10)
    empty, full = batch_at(samples, (0, 3, 0)), batch_at(samples, (0, 3, 2))
    assert (empty.samples, empty.counts) == (1, False)
    assert (full.samples, full.counts) == (2, True)


def test_several_ranks_take_the_window_of_one():
    whole = AccumulationWindows(samples=Numbers(10), batch_size=4, drop_last=False)
    feeds = [replace(whole, rank=rank, ranks=2) for rank in range(2)]
    at = Position(sample=4)
    shares = [each.taken(at, 3) for each in feeds]
    assert sorted(i for share in shares for first, n in share for i in range(first, first + n)) == [
        *range(4, 8)
    ]
    assert {each.after(at) for each in feeds} == {whole.after(at)}


def test_a_rank_without_a_sample_of_a_window_takes_nothing_of_it():
    whole = AccumulationWindows(samples=Numbers(9), batch_size=4, drop_last=False)
    at = Position(sample=8)
    assert [replace(whole, rank=rank, ranks=2).taken(at, 3) for rank in range(2)] == [
        [(8, 1)],
        [(8, 0)],
    ]
