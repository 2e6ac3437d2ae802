import contextlib
import sys

import pytest
from benchmarks.turns import Elsewhere, NotRun, Racer

CHILD = """
from benchmarks.turns import NotRun, serve
def loop(pull):
    print("noise of a peer")
    {first}
    while True:
        pull()
serve(loop, lambda: 1.5)
"""


def child(first: str = "pass") -> Elsewhere:
    return Elsewhere([sys.executable, "-c", CHILD.format(first=first)], threads=1)


def test_a_racer_makes_a_block_at_each_lap_and_rests_in_between():
    taken: list[int] = []

    def loop(pull):
        for number in range(1000):
            pull()
            taken.append(number)

    racer = Racer(loop, block=5)
    assert taken == []
    assert racer.lap().keys() == {"wall", "cpu"}
    assert len(taken) == 5
    racer.lap()
    racer.stop()
    assert len(taken) == 10


def test_what_a_loop_raises_reaches_who_waits():
    def loop(pull):
        raise NotRun("not here")

    with pytest.raises(NotRun, match="not here"):
        Racer(loop, block=1)


def test_a_loop_that_swallows_errors_still_ends():
    def loop(pull):
        while True:
            with contextlib.suppress(Exception):
                pull()

    racer = Racer(loop, block=1)
    racer.lap()
    racer.stop()
    assert not racer.is_alive()


def test_a_loop_that_ends_by_itself_is_an_error():
    racer = Racer(lambda pull: pull(), block=1)
    with pytest.raises(RuntimeError, match="by itself"):
        racer.lap()


def test_a_loop_elsewhere_makes_steps_and_tells_its_loss(capfd):
    loop = child()
    assert loop.lap()["wall"] > 0
    assert loop.loss() == 1.5
    loop.stop()
    assert "noise" in capfd.readouterr().err  # and not among the answers


def test_a_loop_elsewhere_says_why_it_is_not_run():
    with pytest.raises(NotRun, match="no bf16"):
        child("raise NotRun('no bf16')")


def test_a_process_that_dies_is_told():
    with pytest.raises(RuntimeError, match="ended with 3"):
        child("import os; os._exit(3)")


def test_a_process_that_is_killed_between_two_laps_is_told():
    loop = child()
    loop._process.kill()
    loop._process.wait()
    with pytest.raises(RuntimeError, match="ended with -9"):
        loop.lap()
