"""When enough has been seen of a script that may be stopped."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from hotloop.observe.hooks.event_buffer import BITS, EventCode
from hotloop.observe.when_to_stop import StopLimits, WhenToStop, has_evaluated, is_steady


def updates(seconds: list[float]) -> list[int]:
    at, marks = 0.0, []
    for each in seconds:
        at += each
        marks.append(int(at * 1e9) << BITS | EventCode.UPDATE_END)
    return marks


@pytest.mark.parametrize(
    ("seconds", "steady"),
    [
        ([0.1] * 50, True),
        ([0.1] * 20, False),  # too few
        ([0.01] * 100, False),  # too short a time
        ([0.2] * 25 + [0.1] * 30, False),  # it becomes faster
        ([0.1] * 30 + [5.0] + [0.1] * 30, True),  # one slow step is none of the usual
    ],
)
def test_steps_are_steady_when_the_first_half_took_as_long(seconds, steady):
    assert is_steady(updates(seconds)) is steady


def test_a_forward_pass_without_gradients_is_an_evaluation():
    assert not has_evaluated(updates([0.1] * 9))
    assert has_evaluated([*updates([0.1] * 9), 1 << BITS | 3 << 5 | EventCode.EVAL])
    assert has_evaluated([1 << BITS | EventCode.SILENT])


def stopped_at(
    *epochs: tuple[int, int | None],
    step: float = 0.1,
    next_part: Callable[[float], float] = lambda _: math.inf,
    **limits: float | None,
) -> float:
    """Return after how many seconds a run without evaluations and saves is stopped.

    `epochs`: (the update at which an epoch begins, its batches).
    """
    marks = updates([step] * 3000)
    events = SimpleNamespace(marks=[], thread=0)
    stop = WhenToStop(StopLimits(**limits), events, next_part)  # type: ignore[arg-type]
    stop._began = 1e-6
    for number, mark in enumerate(marks, 1):
        events.marks.append(mark)
        for at, batches in epochs:
            if at == number:
                stop.epoch(number, batches)
        if stop.enough(number, number * step, has_saved=False) is not None:
            return number * step
    raise AssertionError("it was not stopped")


@pytest.mark.parametrize(
    ("epochs", "seconds"),
    [
        ([], 15.0),  # batches made by hand
        ([(1, None)], 15.0),  # a stream
        ([(1, 400), (402, 400)], 40.2),  # the first epoch ends within the limit
        ([(1, 100), (101, 100)], 15.0),  # its end was seen
        ([(1, 100_000)], 15.0),  # it ends too late
    ],
)
def test_a_steady_run_is_observed_until_its_first_epoch_ends(epochs, seconds):
    assert stopped_at(*epochs) == pytest.approx(seconds, abs=0.3)


def test_a_time_that_was_asked_for_is_observed():
    assert stopped_at(patience=None, seconds=60.0) == pytest.approx(60.0, abs=0.3)


@pytest.mark.parametrize(("comes_at", "seconds"), [(30.0, 30.0), (400.0, 15.0)])
def test_a_part_of_the_loop_that_comes_soon_is_waited_for(comes_at, seconds):
    def next_part(now: float) -> float:
        return comes_at - now if now < comes_at else math.inf

    assert stopped_at(next_part=next_part) == pytest.approx(seconds, abs=0.3)
