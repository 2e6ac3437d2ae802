import json
import os
import socket
import threading

import pytest

from hotloop.tuning import step_gate
from hotloop.tuning.step_gate import Gate


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def sockets():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def pair(sockets):
    ours, theirs = sockets
    clock, waited = Clock(), []
    gate = Gate(
        theirs, wait=lambda: waited.append(clock.now), more=lambda: {"epochs": 2}, clock=clock
    )
    with ours.makefile("rw") as line:
        yield gate, line, clock, waited


def notify(line, steps: int) -> None:
    line.write(json.dumps({"steps": steps}) + "\n")
    line.flush()


def test_it_rests_after_the_first_step_and_then_after_each_block(pair):
    gate, line, clock, waited = pair
    notify(line, 3)
    clock.now = 107.0
    gate.ended()
    assert json.loads(line.readline()) == {
        "seconds": 7.0, "made": 1, "at": 1, "pid": os.getpid(), "epochs": 2,
    }  # fmt: skip
    notify(line, 5)
    for _ in range(3):
        clock.now += 1.0
        gate.ended()
    said = json.loads(line.readline())
    assert (said["seconds"], said["made"], said["at"]) == (3.0, 3, 4)
    assert waited == [107.0, 110.0]  # for the device, before the time is taken


def test_time_at_rest_belongs_to_no_block(pair):
    gate, line, clock, _ = pair

    def steps():
        gate.ended()
        gate.ended()

    thread = threading.Thread(target=steps)
    thread.start()
    line.readline()
    clock.now += 1000.0
    notify(line, 1)
    said = json.loads(line.readline())
    notify(line, 1)
    thread.join()
    assert said["seconds"] == 0.0


def test_a_forked_child_of_the_script_never_rests(pair):
    gate, line, _, _ = pair
    child = os.fork()
    if child == 0:
        gate.ended()
        os._exit(0 if gate.steps == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    notify(line, 1)
    gate.ended()
    assert json.loads(line.readline())["at"] == 1


def test_it_keeps_memory_from_the_first_request_that_asks_for_it(pair, monkeypatch):
    gate, line, _, _ = pair
    asked = []
    monkeypatch.setattr(step_gate, "keep_memory", lambda: asked.append(gate.steps) or True)
    for request in (
        {"steps": 1},
        {"steps": 1, "keep_memory": True},
        {"steps": 1, "keep_memory": True},
    ):
        line.write(json.dumps(request) + "\n")
        line.flush()
        gate.ended()
    assert asked == [2], "after the second step"
