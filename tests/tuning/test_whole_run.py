"""Whole runs of a script: expected, estimated from its trials, and really made."""

import sys
from dataclasses import replace

import pytest
from tests.golden.slow_run import CASE

from hotloop.core.hardware import Hardware
from hotloop.core.measurement import Measurement
from hotloop.core.plan import Plan
from hotloop.core.tuning_result import TuneRow
from hotloop.tuning import whole_run
from hotloop.tuning.script_target import Script
from hotloop.tuning.whole_run import RUNS, estimated, expected_seconds, measured

ASIDE = sum(event.seconds for event in (*CASE.evaluations, *CASE.saves)) / CASE.steps.count
START = sum(CASE.row(name) for name in ("start", "import", "data load", "compile"))
PLAN = Plan(micro_batch=1).plus("gc-freeze")


def row(step: float, **more) -> TuneRow:
    time = Measurement(unit="s", readings=(step,) * 8)
    return TuneRow(name="", decision="kept", why="", step_time=time, started=2.0, **more)


def test_a_run_takes_its_start_its_steps_and_what_lies_between():
    case = replace(CASE, stopped="10 s were observed", planned_steps=1000)
    whole = estimated(case, row(0.1), row(0.05, warm_up=3.0))
    assert whole is not None
    assert whole.before == (pytest.approx(2 + 1000 * (0.1 + ASIDE)),)
    assert whole.after == (pytest.approx(5 + 1000 * (0.05 + ASIDE)),)
    assert (whole.steps, whole.is_measured) == (1000, False)
    assert expected_seconds(case) == pytest.approx(START + 1000 * (case.step_time.median + ASIDE))


def test_a_run_of_unknown_length_is_not_estimated():
    case = replace(CASE, stopped="10 s were observed", planned_steps=None)
    assert estimated(case, row(0.1), row(0.05)) is None
    assert expected_seconds(case) is None


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(
        "import pathlib, sys\n"
        "ran = pathlib.Path(sys.argv[1])\n"
        "before = ran.read_text() if ran.exists() else ''\n"
        "ran.write_text(before + str('hotloop' in sys.modules)[0])\n"
        "sys.exit(int(sys.argv[2]))\n"
    )

    def of(code: int) -> Script:
        words = ("train.py", str(tmp_path / "ran"), str(code))
        return Script(
            command=words, cwd=tmp_path, detect=lambda: Hardware(device="cpu", name="CPU")
        )

    return of


def test_whole_runs_are_made_by_turns_as_a_user_makes_them(script, tmp_path):
    said = []
    found = measured(script(0), PLAN, steps=5, notify=said.append)
    assert not isinstance(found, str)
    assert (tmp_path / "ran").read_text() == "FTTF"
    assert (len(found.before), len(found.after), found.steps) == (2, 2, 5)
    assert 0 < min(found.before) < min(found.after), "hotloop starts as well"
    assert said[1] == f"a whole run under the plan, 2 of {RUNS}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ran", "train.py"]


def test_a_clear_difference_needs_no_second_pair(script, monkeypatch):
    seconds = {False: 9.0, True: 4.0}

    def ran(command, **how):
        assert ("--no-canary" in command) == ("hotloop" in command), "trials have tried the plan"
        return whole_run.child.Outcome(status="ok", seconds=seconds["hotloop" in command])

    monkeypatch.setattr(whole_run.child, "run", ran)
    found = measured(script(0), PLAN, steps=5, notify=lambda _: None)
    assert (found.before, found.after) == ((9.0,), (4.0,))


def test_a_run_that_fails_tells_no_time(script):
    said = measured(script(3), PLAN, steps=None, notify=lambda _: None)
    assert said == "a whole run as it is ended: exit code 3"


def test_ctrl_c_ends_whole_runs(script, monkeypatch):
    def stopped(command, **how):
        assert command[0] == sys.executable
        return whole_run.child.Outcome(status="interrupted")

    monkeypatch.setattr(whole_run.child, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        measured(script(0), PLAN, steps=None, notify=lambda _: None)
