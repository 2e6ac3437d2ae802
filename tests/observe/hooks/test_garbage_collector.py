"""The collector is out of the way while libraries load, and for a moment that nobody else sees."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hotloop.observe.hooks.garbage_collector import Collector


@contextmanager
def standing() -> Iterator[Collector]:
    collector = Collector()
    collector.stand_before()
    try:
        yield collector
    finally:
        collector.give_back()
        gc.enable()


@contextmanager
def held_again_and_again(collector: Collector) -> Iterator[list[bool]]:
    over, states = threading.Event(), list[bool]()

    def hold() -> None:
        while not over.is_set():
            with collector.held():
                states.append(collector._own["isenabled"]())

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield states
    finally:
        over.set()
        thread.join()


def test_it_is_off_while_it_is_held_and_on_afterwards():
    with standing() as collector:
        with collector.held():
            assert not collector._own["isenabled"]()
        assert gc.isenabled()


def test_a_script_never_sees_it_off():
    with standing() as collector, held_again_and_again(collector) as states:
        seen = {gc.isenabled() for _ in range(5_000)}
    assert seen == {True}
    assert states
    assert not any(states)


def test_what_a_script_switches_stays():
    with standing() as collector, held_again_and_again(collector):
        for _ in range(200):
            gc.disable()
            assert not gc.isenabled()
            gc.enable()
            assert gc.isenabled()
        gc.disable()
        with collector.held():
            pass
        assert not gc.isenabled()


def test_a_fork_waits_until_it_is_on_again():
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    with standing() as collector, held_again_and_again(collector):
        for _ in range(20):
            child = os.fork()
            if not child:
                os._exit(0 if gc.isenabled() else 1)
            assert os.waitpid(child, 0)[1] == 0


def test_the_functions_are_given_back_but_not_over_somebody_elses():
    before = gc.enable, gc.disable
    with standing():
        assert gc.enable is not before[0]
        theirs = gc.disable = lambda: None
    assert gc.enable is before[0]
    assert gc.disable is theirs
    gc.disable = before[1]
