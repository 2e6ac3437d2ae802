import pytest
from tests.golden.gpu import Cuda

from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.probes.cuda_events import EACH, GpuClock

STEP = (
    EventCode.FORWARD,
    EventCode.FORWARD_END,
    EventCode.BACKWARD,
    EventCode.BACKWARD_END,
    EventCode.UPDATE,
    EventCode.UPDATE_END,
)


class Run:
    """A loop whose host and GPU can be held back."""

    def __init__(self, *, lag=0.0, waits=0.0):
        self.cuda, self.lag, self.waits = Cuda(), lag, waits
        self.waited = self.now = 0.0
        self.clock = GpuClock(self.cuda, "cuda:0", waited=lambda: self.waited, now=lambda: self.now)

    def steps(self, count, codes=STEP):
        for _ in range(count):
            for code in codes:
                self.clock.passed(code)
            self.now += 1.0
            self.waited += self.waits
            self.cuda.done = self.cuda.queued - self.lag
        return self.clock


def test_one_step_in_eight_is_timed_by_the_gpus_own_clock():
    clock = Run().steps(10 * EACH)
    assert set(clock.times) == {"forward", "backward", "optimizer"}
    for times in clock.times.values():
        assert times == pytest.approx([0.001] * 9)  # the tenth is not read yet


def test_events_are_used_again():
    run = Run()
    run.steps(40 * EACH)
    assert run.cuda.made <= 2 * len(STEP)


def test_nothing_is_read_before_the_gpu_has_passed_it_and_little_is_kept():
    run = Run(lag=1e9)
    clock = run.steps(40 * EACH)
    assert not clock.times
    assert run.cuda.made == 4 * len(STEP)


def test_accumulation_adds_up_its_passes():
    clock = Run().steps(4 * EACH, (*STEP[:4], *STEP[:4], *STEP[4:]))
    assert clock.times["backward"] == pytest.approx([0.002] * len(clock.times["backward"]))


def test_a_gpu_that_is_done_first_is_starved_and_one_behind_is_not():
    assert Run().steps(10 * EACH).starved == 1.0
    assert Run(lag=0.5).steps(10 * EACH).starved == 0.0


def test_a_gpu_that_was_waited_for_is_not_starved_although_it_is_done():
    assert Run(waits=0.5).steps(10 * EACH).starved == 0.0


def test_an_evaluation_after_the_step_says_nothing_about_it():
    clock = Run().steps(10 * EACH, (*STEP, EventCode.EVAL, EventCode.EVAL_END))
    assert clock.starved is None


def test_few_samples_say_nothing():
    assert Run().steps(2 * EACH).starved is None


def test_while_a_graph_is_captured_the_gpu_is_left_alone():
    run = Run()
    run.cuda.capturing = True
    run.steps(4 * EACH)
    assert run.cuda.made == 0
