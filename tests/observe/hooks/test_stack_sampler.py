import sys
import threading
import time

from hotloop.observe.hooks.stack_sampler import EVERY, MOST, SWITCH, StackSampler


def waits_for(sampler: StackSampler, count: int) -> None:
    until = time.monotonic() + 20
    while len(sampler.stands) < count and time.monotonic() < until:
        time.sleep(EVERY)


def test_it_sees_where_a_thread_stands_and_ends_when_told():
    sampler = StackSampler(threading.get_ident())
    sampler.start()
    waits_for(sampler, 3)
    sampler.stop()
    count = len(sampler.stands)
    assert count >= 3
    names = {code.co_name for stand in sampler.stands for code, _ in stand.stack}
    assert "waits_for" in names
    assert sampler.fault is None
    time.sleep(3 * EVERY)
    assert len(sampler.stands) == count
    assert not any(thread.name == "hotloop sampler" for thread in threading.enumerate())


def test_equal_stacks_are_one_object():
    sampler = StackSampler(threading.get_ident())
    for _ in range(2):
        sampler._look()
    assert sampler.stands[0].stack is sampler.stands[1].stack


def test_a_thread_that_never_waits_is_seen_where_it_computes():
    """At Python's switch interval of 5 ms the samples of such a loop come late, at its end."""

    def computes(until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            count += 1
        return count

    sampler = StackSampler(threading.get_ident())
    sampler.start()
    computes(time.perf_counter() + 0.5)
    sampler.stop()
    inside = [s for s in sampler.stands if any(c.co_name == "computes" for c, _ in s.stack)]
    assert len(inside) >= 5, "25 are due; a busy machine lets fewer through"


def test_the_switch_interval_is_short_only_while_it_samples():
    before = sys.getswitchinterval()
    sampler = StackSampler(threading.get_ident())
    sampler.start()
    assert abs(sys.getswitchinterval() - SWITCH) < 1e-6
    sampler.stop()
    assert sys.getswitchinterval() == before


def test_an_interval_that_the_script_sets_stays():
    before = sys.getswitchinterval()
    sampler = StackSampler(threading.get_ident())
    sampler.start()
    sys.setswitchinterval(0.02)
    sampler.stop()
    try:
        assert sys.getswitchinterval() == 0.02
    finally:
        sys.setswitchinterval(before)


def test_a_fault_is_kept_and_ends_the_sampling():
    def fails() -> None:
        raise OSError("no more")

    sampler = StackSampler(threading.get_ident(), each=fails)
    sampler.start()
    waits_for(sampler, 1)
    sampler.stop()
    assert str(sampler.fault) == "no more"


def test_a_long_run_keeps_a_bounded_number_of_samples():
    sampler = StackSampler(threading.get_ident())
    for _ in range(MOST + 10):
        sampler._look()
    assert len(sampler.stands) <= MOST // 2 + 10
    assert sampler._every == 2 * EVERY
