import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest
import torch

from hotloop.machine.threads import LEAST_S, MOST_S, Load, load, usable_threads, watch

CORES = psutil.cpu_count() or 1


@pytest.fixture(autouse=True)
def _as_many_threads_as_cores() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(CORES)
    yield
    torch.set_num_threads(before)


class Machine:
    """One that others keep busy on some cores, while this process uses some of its own."""

    def __init__(self, *, others: float, own: float = 0.0) -> None:
        self.others, self.own, self.now, self.slept = others, own, 1000.0, 0.0

    def look(self) -> Load:
        everyone = self.now * (self.others + self.own)
        return Load(at=self.now, everyone=everyone, own=self.now * self.own)

    def wait(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds

    def threads(self, cores: float | None = None) -> tuple[int, str]:
        return usable_threads(cores, look=self.look, wait=self.wait)


def after_watching(machine: Machine, seconds: float) -> Machine:
    watch(look=machine.look)
    machine.now += seconds
    return machine


def test_what_was_watched_before_costs_no_wait() -> None:
    torch.set_num_threads(CORES + 1)
    machine = after_watching(Machine(others=CORES), seconds=1.5)
    assert machine.threads() == (1, f"{CORES}.0 of {CORES} cores are busy with other processes")
    assert machine.slept == 0


@pytest.mark.parametrize("seconds", [0.0, LEAST_S / 2, MOST_S + 1])
def test_a_watch_that_is_too_short_or_too_old_is_made_anew(seconds: float) -> None:
    torch.set_num_threads(CORES + 1)
    machine = after_watching(Machine(others=0), seconds)
    assert machine.threads()[0] == CORES
    assert machine.slept == LEAST_S


def test_for_one_thread_nothing_is_watched() -> None:
    torch.set_num_threads(1)
    machine = Machine(others=CORES)
    assert machine.threads() == (1, "torch's own count; each thread has a core")
    assert machine.slept == 0


def test_what_this_process_used_itself_counts_as_free() -> None:
    machine = after_watching(Machine(others=0, own=CORES), seconds=1.5)
    assert machine.threads() == (CORES, "torch's own count; each thread has a core")


def test_a_quota_of_cores_is_kept() -> None:
    torch.set_num_threads(4)
    threads, why = after_watching(Machine(others=0), seconds=1.5).threads(cores=1.5)
    assert (threads, why) == (1, "torch starts 4, this process has 1 core")


def test_the_reading_is_of_this_process_and_of_this_machine() -> None:
    def grows(get: Callable[[Load], float], first: Load) -> bool:
        return get(load()) >= get(first)

    first = load()
    assert first.everyone > first.own > 0
    assert all(grows(get, first) for get in (lambda x: x.at, lambda x: x.everyone, lambda x: x.own))


def test_what_ended_children_computed_is_counted_as_ones_own_where_asked_for() -> None:
    code = "import time\nwhile time.process_time() < 0.35: pass"  # the system counts in 10 ms
    whole, own = load(children=True), load()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert load(children=True).own - whole.own >= 0.3
    assert load().own - own.own < 0.3
