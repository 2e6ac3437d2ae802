"""Loader processes give what the loop would have made itself, and die with a sentence."""

import os
import signal
import time

import pytest
import torch
from tests.golden.map_style import Mapped

from hotloop.core.errors import DataError
from hotloop.engine.loader_processes import WindowWorkers
from hotloop.session.accumulation_windows import AccumulationWindows, Position


class Noisy:
    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if index == 7 and self.fails == "raises":
            raise ValueError("torn page")
        if index == 7 and self.fails == "dies":
            time.sleep(0.3)  # the window before it is on its way
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fails == "is slow":
            time.sleep(0.3)
        return {"x": torch.cat([torch.tensor([float(index)]), torch.rand(2)])}


def feed(**options) -> AccumulationWindows:
    samples = Mapped(Noisy(**options), fingerprint="", seed=1, shuffle=not options)
    return AccumulationWindows(samples=samples, batch_size=4, drop_last=False)


@pytest.fixture
def workers():
    made = []

    def make(of: AccumulationWindows, count: int = 2) -> WindowWorkers:
        made.append(WindowWorkers(of, count=count, ahead=2, pin=False))
        return made[-1]

    yield make
    for one in made:
        one.close()


def walk(of: AccumulationWindows, source, steps: int, at: Position, micro: int = 3):
    """Return the windows of some steps, whole tensors and counts."""
    seen = []
    for _ in range(steps):
        window = source.window(at, micro)
        seen.append([(b.tensors["x"].tolist(), b.samples, b.tokens, b.targets) for b in window])
        at = of.after(at)
    return seen


@pytest.mark.parametrize("count", [1, 2])
def test_windows_are_those_of_the_loop_over_an_epochs_end(workers, count):
    one = feed()
    expected = walk(one, one, 7, Position())
    torch.manual_seed(8)
    state = torch.get_rng_state()
    assert walk(one, workers(one, count), 7, Position()) == expected
    assert torch.equal(torch.get_rng_state(), state), "the training's random stream is its own"


def test_it_goes_on_from_any_place_with_any_micro_batch(workers):
    one, source = feed(), workers(feed())
    walk(one, source, 2, Position())
    elsewhere = Position(step=9, epoch=3, sample=4)
    assert walk(one, source, 3, elsewhere, micro=2) == walk(one, one, 3, elsewhere, micro=2)


def test_a_sample_that_cannot_be_read_is_named_without_a_traceback(workers):
    with pytest.raises(DataError) as caught:
        walk(feed(), workers(feed(fails="raises")), 3, Position())
    assert str(caught.value) == "sample 7 of Noisy cannot be read: ValueError: torn page"


def test_a_process_that_is_killed_is_told_with_the_samples_and_a_remedy(workers):
    source = workers(feed(fails="dies"), count=1)
    with pytest.raises(DataError, match=r"samples \d\.\.\d of epoch 0 were waited.*pid.*count=1"):
        walk(feed(), source, 3, Position())


def test_a_death_is_raised_where_a_window_is_waited_for_and_nowhere_else(workers):
    source = workers(feed(fails="dies"), count=1)
    first, _ = source.window(Position(), 3), time.sleep(1.0)  # the process dies ahead of the loop
    assert [batch.samples for batch in first] == [3, 1]
    with pytest.raises(DataError, match="of epoch 0 were waited for"):
        source.window(Position(step=1, sample=4), 3)


def test_windows_come_where_the_handler_of_deaths_was_taken_away(workers):
    one = feed()
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        assert walk(one, workers(one), 2, Position()) == walk(one, one, 2, Position())
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_an_interrupted_wait_starts_afresh(workers):
    slow, source = feed(fails="is slow"), workers(feed(fails="is slow"))

    def interrupted(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.7)  # the processes have started, and sleep
    try:
        with pytest.raises(KeyboardInterrupt):
            walk(slow, source, 1, Position(), micro=4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    end = Position(sample=8)
    assert walk(slow, source, 1, end) == walk(slow, slow, 1, end)
