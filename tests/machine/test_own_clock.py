"""The clock of a thread: the same work takes as long beside other programs as alone."""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable

import psutil
import pytest

from hotloop.machine import own_clock
from hotloop.machine.own_clock import own_time


def work() -> None:
    sum(range(150_000))


def spin() -> None:
    while True:
        pass


def seconds(clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


@pytest.mark.skipif(
    own_clock._queue_of(os.getpid(), os.getpid()) is None, reason="needs /proc/PID/schedstat"
)
def test_other_programs_on_the_core_are_left_out() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # the other program inherits it
    other = multiprocessing.get_context("fork").Process(target=spin, daemon=True)
    other.start()
    try:
        own = statistics.median(seconds(own_time) for _ in range(40))
        before = sum(psutil.Process(other.pid).cpu_times()[:2])
        wall = sum(seconds(time.perf_counter) for _ in range(200))  # many turns
        others = sum(psutil.Process(other.pid).cpu_times()[:2]) - before
    finally:
        other.kill()
        other.join()
        os.sched_setaffinity(0, cores)
    assert others > 0.05, "the other program had its turns"
    assert wall - 200 * own > 0.5 * others


def test_sleeping_counts() -> None:
    began = own_time()
    time.sleep(0.05)
    assert own_time() - began > 0.04


def test_a_system_that_does_not_count_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_clock, "_queue_of", lambda process, thread: None)
    before = time.perf_counter()
    assert before <= own_time() <= time.perf_counter()
