import os
import signal
import time

import pytest

from hotloop.engine.signals import Dropped, Signals


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_signal_lets_the_window_finish_within_the_time_of_grace():
    clock = Clock()
    signals = Signals(clock, grace=8)
    signals.receive(signal.SIGTERM)
    clock.now = 7.9
    signals.poll()
    clock.now = 8.0
    with pytest.raises(Dropped):
        signals.poll()
    signals.receive(signal.SIGALRM)
    assert signals.received == signal.SIGTERM


def test_a_second_signal_drops_the_window_at_once():
    signals = Signals(Clock())
    with pytest.raises(Dropped), signals.droppable():  # noqa: PT012 - the second one raises
        signals.receive(signal.SIGINT)
        signals.receive(signal.SIGINT)
        pytest.fail("the second signal must interrupt")


def test_the_update_is_never_cut():
    signals = Signals(Clock())
    for _ in range(3):
        signals.receive(signal.SIGINT)
    assert signals.received == signal.SIGINT


def test_work_that_costs_nothing_to_repeat_is_cut_by_the_first_signal():
    signals = Signals(Clock())
    with pytest.raises(Dropped), signals.droppable(at_once=True):
        signals.receive(signal.SIGTERM)
    with pytest.raises(Dropped), signals.droppable(at_once=True):
        pytest.fail("with a signal pending it must not begin")


def test_real_signals_and_the_alarm():
    signals = Signals(grace=0.05)
    before = signal.getsignal(signal.SIGTERM)
    with signals.installed():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Dropped), signals.droppable():
            time.sleep(5)  # the alarm breaks it off
    assert signals.received == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_is_known_how_long_ago_a_signal_came():
    clock = Clock()
    signals = Signals(clock)
    assert signals.since() is None
    signals.receive(signal.SIGTERM)
    signals._timer(0)
    assert signals.since() == 0
    clock.now += 15.0
    assert signals.since() == 15
