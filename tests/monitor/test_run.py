import json
import os

import pytest
from tests.monitor.conftest import dead, hold, session, step, steps

from hotloop.core.errors import DataError, UsageError
from hotloop.core.events import event_line
from hotloop.core.storage.rundir import RunDir
from hotloop.monitor.run import RunReader, pace


def evaluated(n, *, t, wall):
    return event_line("eval", step=n, t=t, wall=wall, loss=2.0, targets=9, best=True)


def test_a_running_run_tells_step_speed_and_time_left(made):
    run = RunReader(made(events=[session(), *steps(1, 20)])).read(cores=1.0)
    assert (run.state, run.phase, run.pid) == ("running", "training", os.getpid())
    assert (run.step, run.steps) == (20, 100)
    assert run.pace.steps_per_s == pytest.approx(10)
    assert run.pace.tokens_per_s == pytest.approx(10_000)
    assert run.pace.shares == pytest.approx(
        {"data": 0.1, "forward": 0.3, "backward": 0.5, "update": 0.1}
    )
    assert run.seconds_left == pytest.approx(8, abs=0.5)
    assert run.cost.ceiling == 1e9


def test_validations_are_left_out_of_the_speed_but_not_of_the_time_left(made):
    lines = [session(), *steps(1, 10), evaluated(10, t=7.0, wall=5.0)]
    lines += [step(n, t=6 + n / 10) for n in range(11, 21)]
    found = pace([json.loads(line) for line in lines], log_every=10)
    assert found.steps_per_s == pytest.approx(10)
    assert found.seconds_per_step == pytest.approx((8 - 1) / 20)
    assert found.log_seconds == pytest.approx(1)


def test_the_speed_is_that_of_the_newest_process(made):
    lines = [session(), *steps(1, 20), session(20, t=50.0)]
    assert pace([json.loads(line) for line in lines], log_every=1) is None
    lines += [step(n, t=50 + (n - 20) / 2) for n in range(21, 31)]
    assert pace([json.loads(line) for line in lines], log_every=1).steps_per_s == pytest.approx(2)


def test_an_empty_run_starts(made):
    run = RunReader(made()).read()
    assert (run.state, run.phase, run.step, run.pace) == ("running", "starting", 0, None)
    assert run.seconds_left is None


def test_a_finished_run_says_so_and_how(made):
    path = made(events=[session(), *steps(1, 100)], alive=False, status="complete")
    run = RunReader(path).read()
    assert (run.state, run.why, run.phase, run.seconds_left) == ("complete", None, None, None)
    stopped = made("other", alive=False, status="stopped", reason="signal")
    assert RunReader(stopped).read().why == "signal"


def test_a_run_whose_process_is_gone_has_crashed(made):
    path = made(events=[session(), *steps(1, 20)], alive=False)
    assert RunReader(path).read().state == "crashed"
    dead(path)
    run = RunReader(path).read()
    assert (run.state, run.why, run.pid) == ("crashed", "process 1073741824 is gone", None)


def test_a_run_on_another_machine_cannot_be_looked_at(made):
    path = made(alive=False)
    hold(path, host="elsewhere")
    run = RunReader(path).read()
    assert (run.state, run.pid) == ("running", None)
    assert "elsewhere" in run.why


def test_how_a_run_ended_is_read_when_its_process_lets_go(made):
    path = made(events=[session(), *steps(1, 20)])
    reader = RunReader(path)
    assert reader.read().running
    RunDir(path).update(status="complete")
    (path / "lock.json").unlink()
    assert reader.read().state == "complete"


def test_a_torn_line_and_a_resume_are_read_as_they_count(made):
    path = made(events=[session(), *steps(1, 20)])
    reader = RunReader(path)
    reader.read()
    with RunDir(path).events_file().open("a") as stream:
        resumed = event_line("resumed_from", step=10, t=1.0)
        stream.write(f"{session(10)}\n{resumed}\n{step(11, t=1.1)}\n" + '{"torn')
    assert reader.read().step == 11


def test_what_is_saved_and_a_save_under_way_are_seen(made):
    path = made(events=[session(), *steps(1, 20)])
    (path / "checkpoints" / ".tmp-step-00000020-1-00000000").mkdir()
    os.utime(RunDir(path).events_file(), (1, 1))
    run = RunReader(path).read()
    assert (run.phase, run.saved_step) == ("saving", None)
    for name in ("step-00000009", "step-00000010", "step-00000011.broken-1234"):
        (path / "checkpoints" / name).mkdir()
    run = RunReader(path).read()
    assert run.saved_step == 10
    assert 0 <= run.saved_ago < 60


def test_of_several_ranks_the_first_is_read(made):
    waiting = [line.replace('"update"', '"exchange":0.02,"update"') for line in steps(1, 20)]
    run = RunReader(made(events=[session(), *waiting], ranks={"world": 4})).read()
    assert (run.ranks, run.step) == (4, 20)
    assert run.pace.shares["exchange"] == pytest.approx(0.2)
    assert RunReader(made("alone", events=[session(), *steps(1, 20)])).read().ranks == 1
    for n, told in enumerate([3, None, {"world": "4"}, {"world": True}, {"world": -1}]):
        assert RunReader(made(f"odd-{n}", events=[session()], ranks=told)).read().ranks == 1


def test_damage_is_told_by_file(made):
    path = made(events=["[]"])
    with pytest.raises(DataError, match="events-r0"):
        RunReader(path).read()
    (path / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run\.json"):
        RunReader(path)


def test_a_number_that_is_none_is_told(made):
    path = made(events=[session(), step(1, t=1.1), step(2, t=1.2).replace("1.2", '"x"')])
    run = RunReader(path).read()
    assert run.step == 1
    assert "the step event of step 2 has t='x', expected float: the line is skipped" in run.why


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no run folder"):
        RunReader(tmp_path)
