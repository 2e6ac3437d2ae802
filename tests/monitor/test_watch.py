from pathlib import Path

import pytest

from hotloop.monitor.run import RunReading
from hotloop.monitor.sample import MachineSample
from hotloop.monitor.series import SampleHistory
from hotloop.monitor.watch import Terminated, watch


class Sampler:
    """Gives out what it was told to; a second goes by with each wait."""

    def __init__(self, *samples, alive=lambda: True):
        self._samples = list(samples)
        self.seconds, self.waits = 0.0, []
        self.tree = type("Tree", (), {"alive": staticmethod(alive), "pid": 7})()

    def take(self):
        return self._samples.pop(0) if self._samples else MachineSample(at=self.seconds, values={})

    def now(self):
        return self.seconds

    def wait(self, seconds):
        self.waits.append(seconds)
        self.seconds += seconds


def watched(sampler, *, seconds=None, interval=1.0, each=lambda sample: None):
    history = SampleHistory()
    ended = watch(
        sampler, history, interval=interval, seconds=seconds, each=each, now=sampler.now,
        wait=sampler.wait,
    )  # fmt: skip
    return ended, history


def run(state, why=None):
    return MachineSample(
        at=1.0, values={}, run=RunReading(path=Path("r"), what="x", state=state, why=why)
    )


def test_sixty_seconds_are_sixty_samples():
    sampler = Sampler()
    ended, history = watched(sampler, seconds=60)
    assert (ended.why, ended.code, history.seen) == ("the 60 s are over", 0, 60)
    assert sampler.seconds == 60


def test_an_interval_is_kept_although_a_sample_takes_time():
    sampler = Sampler()

    def slow(sample):
        sampler.seconds += 0.25

    watched(sampler, seconds=3, each=slow)
    assert sampler.waits == [1.0, 0.75, 0.75]


def test_moments_that_were_missed_are_not_made_up_for():
    sampler = Sampler()

    def asleep(sample):
        sampler.seconds += 5.5 if sampler.seconds == 1 else 0

    _, history = watched(sampler, seconds=10, each=asleep)
    assert history.seen == 1 + 4, "at 1 s, and at 7, 8, 9, 10 s"


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_a_signal_ends_it_at_once(stop, code):
    def each(sample):
        raise stop

    ended, history = watched(Sampler(), each=each)
    assert (ended.code, history.seen) == (code, 1)


def test_a_process_that_has_ended_ends_it():
    left = [True, True, False]
    ended, history = watched(Sampler(alive=lambda: left.pop(0)))
    assert (ended.why, ended.code, history.seen) == ("process 7 has ended", 0, 3)


def test_a_run_that_is_over_ends_it_with_its_reason():
    ended, history = watched(Sampler(run("running"), run("stopped", "signal")))
    assert (ended.why, history.seen) == ("the run is stopped: signal", 2)


def test_a_crash_is_believed_when_it_was_seen_twice():
    samples = [run("crashed"), run("running"), run("crashed", "it died"), run("crashed", "it died")]
    ended, history = watched(Sampler(*samples))
    assert (ended.why, history.seen) == ("the run crashed: it died", 4)
