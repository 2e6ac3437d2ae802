import pytest
import torch

from hotloop.engine.wall_time import ROWS, WallTime, recompiling


def test_marks_leave_no_gap():
    times = iter([10.0, 13.0, 13.5, 14.5, 16.0, 17.0])
    wall_time = WallTime(lambda: next(times), began=8.0)
    for phase in ("start", "data", "forward", "update", "evaluate"):
        wall_time.mark(phase)
    rows = wall_time.rows()
    assert tuple(rows) == ROWS
    assert sum(rows.values()) == pytest.approx(16.0 - 8.0)
    assert (rows["start"], rows["data wait"], rows["step"]) == (2.0, 3.0, 1.5)
    assert wall_time.elapsed() == 9.0


def test_waits_for_other_ranks_have_a_row_and_are_part_of_the_steps():
    times = iter([3.0, 5.0, 6.0])
    wall_time = WallTime(lambda: next(times), began=0.0)
    for phase in ("start", "forward", "exchange"):
        wall_time.mark(phase)
    assert wall_time.in_steps() == 3.0
    wall_time.move(0.5, "forward", "exchange")
    rows = wall_time.rows()
    assert (rows["step"], rows["exchange"], wall_time.in_steps()) == (1.5, 1.5, 3.0)
    assert list(rows)[3:5] == ["step", "exchange"]


def test_an_unknown_phase_is_other_and_not_lost():
    times = iter([0.0, 2.0])
    wall_time = WallTime(lambda: next(times))
    wall_time.mark("somewhere")
    assert wall_time.rows()["other"] == 2.0


def test_a_stretch_within_a_phase_has_its_own_row():
    times = iter([1.0, 2.0, 4.0, 5.0])
    wall_time = WallTime(lambda: next(times), began=0.0)
    wall_time.mark("data")
    wall_time.pause("compile")
    wall_time.pause("compile")  # one within another
    wall_time.go_on()
    wall_time.go_on()
    assert wall_time.mark("forward") == 2.0
    rows = wall_time.rows()
    assert (rows["compile"], rows["step"], sum(rows.values())) == (2.0, 2.0, 5.0)
    assert wall_time.step == {"data": 1.0, "forward": 2.0}


def test_what_torch_compiles_in_a_step_is_charged_to_compiling():
    now = [0.0]
    wall_time = WallTime(lambda: now[0], began=0.0)

    def compiler(graph, inputs):
        now[0] += 5.0
        return graph.forward

    torch._dynamo.reset()
    double = torch.compile(lambda x: x * 2, backend=compiler, dynamic=False)
    with recompiling(wall_time):
        for width in (2, 3):  # a ragged batch
            double(torch.ones(width))
            now[0] += 1.0
            wall_time.mark("forward")
    double(torch.ones(4))
    rows = wall_time.rows()
    assert (rows["compile"], rows["step"]) == (10.0, 2.0)
