import pytest
from tests.golden.gpu import fake_torch, hooks

from hotloop.core.case.steps_and_loaders import Frame, Stack
from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.probes.device_waits import Waits
from hotloop.observe.probes.run_ahead import MOST, RunAhead, shared_out
from hotloop.observe.wall.wall_time import fold


@pytest.fixture
def cuda():
    return fake_torch().cuda


def after(updates, cuda, *, done):
    """Make updates of 1 ms; the GPU keeps up if `done`. Return the buffer and the waits."""
    made = hooks()
    waits = Waits(made)
    ahead = RunAhead(cuda, "cuda:0", made.events, waits)
    for _ in range(updates):
        cuda.queued += 1.0
        if done:
            cuda.done = cuda.queued
        ahead.after_update()
    return made.events, waits


def test_the_host_waits_for_the_update_before_the_last_ones(cuda):
    events, waits = after(MOST + 4, cuda, done=False)
    assert cuda.waited == [1.0, 2.0, 3.0]  # in the order in which they were queued
    codes = [code for _, code, _ in events.read()]
    assert codes.count(EventCode.QUEUED) == codes.count(EventCode.QUEUED_END) == 3
    assert waits.seconds > 0


def test_before_hotloops_own_work_the_queue_is_empty_and_its_time_is_the_steps(cuda):
    made = hooks()
    ahead = RunAhead(cuda, "cuda:0", made.events, Waits(made))
    made.settle = ahead.drain
    cuda.queued = 5.0
    ahead.after_update()
    made.guarded(lambda: None)
    assert cuda.waited == [5.0]
    codes = [code for _, code, _ in made.events.read()]
    assert codes == [EventCode.QUEUED, EventCode.QUEUED_END, EventCode.OWN, EventCode.OWN_END]


def test_nothing_waits_where_the_gpu_keeps_up(cuda):
    events, waits = after(3 * MOST, cuda, done=True)
    assert cuda.waited == []
    assert waits.seconds == 0
    assert [code for _, code, _ in events.read()] == []


def test_nothing_is_recorded_while_a_graph_is_captured(cuda):
    cuda.capturing = True
    after(3 * MOST, cuda, done=False)
    assert cuda.waited == []


def test_a_wait_for_the_queue_is_time_of_the_steps():
    code, ms = EventCode, 1_000_000
    marks, at = [], 0
    for _ in range(4):
        for opened in (code.FORWARD, code.BACKWARD, code.UPDATE, code.QUEUED):
            marks += [(at, opened, 0), (at + ms, opened + 1, 0)]
            at += ms
    folded = fold([*marks, (at, code.END, 0)])
    assert folded.steps[-1]["queued"] == pytest.approx(1e-3)
    assert sum(folded.steps[-1].values()) == pytest.approx(4e-3)


def test_the_gpus_time_goes_to_the_parts_of_a_step():
    frame = Frame(file="a.py", line=1, function="f", own=True)
    stacks = [
        Stack(row=row, frames=(frame,), samples=1, seconds=1.0) for row in ("forward", "queued")
    ]
    rows, steps = {"forward": 1.0, "start": 5.0, "queued": 8.0}, [{"forward": 0.1, "queued": 0.8}]
    times = {"forward": [0.25, 0.25], "backward": [0.75]}
    left = shared_out(rows, steps, stacks, times)
    assert rows == {"forward": 3.0, "backward": 6.0, "start": 5.0}
    assert steps == [{"forward": pytest.approx(0.3), "backward": pytest.approx(0.6)}]
    assert [(stack.row, stack.seconds) for stack in left] == [("forward", 3.0)]


def test_without_the_gpus_clock_it_is_a_wait():
    rows = {"queued": 8.0, "host waits": 1.0}
    assert shared_out(rows, [], (), {}) == ()
    assert rows == {"host waits": 9.0}
