"""hotloop doctor RUN_DIR: the record of a run of hotloop train is judged by the same rules."""

import json

import pytest

from hotloop import engine
from hotloop.cli.main import main
from hotloop.core.errors import DataError
from hotloop.core.observed import ROWS
from hotloop.core.rundir import RunDir
from hotloop.core.trace import steps
from hotloop.observe import judge_again
from hotloop.recorded import case_of_run
from hotloop.request import fresh_request

STEPS = 12


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("recorded") / "run"
    own = [f"training.max_steps={STEPS}", "training.eval_every_steps=6", "training.log_every=1"]
    keys = {text.partition("=")[0] for text in own}
    engine.train(
        fresh_request("char-lm", [*(t for t in tiny if t.partition("=")[0] not in keys), *own]),
        out=out,
    )
    return RunDir(out)


def test_every_second_of_a_run_has_a_row(run):
    case = case_of_run(run)
    (end,) = [event for event in run.events() if event["kind"] == "end"]
    assert set(case.wall) <= set(ROWS)
    assert case.seconds == pytest.approx(sum(end["wall"].values()), rel=1e-9)
    assert case.row("evaluate") == end["wall"]["evaluate"] > 0
    assert case.row("backward") > 0


def test_steps_validations_and_saves_are_those_of_the_log(run):
    case, made = case_of_run(run), steps(run.events())
    assert case.steps.count == case.total_steps == STEPS
    assert case.steps.wall == tuple(step.wall for step in made[1:])
    assert [each.step for each in case.evaluations] == [6, 12]
    assert case.saves[0].step == 1
    assert all(save.bytes for save in case.saves)
    assert case.steps.tokens == made[0].tokens / run.plan().accumulation
    assert case.readings["rss_bytes"]
    assert case.requested["training.max_steps"] == str(STEPS)
    assert "seed" not in case.requested


def test_slow_saves_are_found_in_a_record(run, tmp_path, monkeypatch):
    """The same run whose saves took ten times its steps: the doctor says so."""
    events = run.events()
    slow = 10 * sum(step.wall for step in steps(events))
    for event in events:
        if event["kind"] == "save":
            event["wall"] = slow / 3
        if event["kind"] == "end":
            event["wall"]["save"] = slow
    monkeypatch.setattr(RunDir, "events", lambda self: events)
    _, diagnosis = judge_again(run.path)
    found = [f for f in diagnosis.findings if f.severity in ("warn", "critical")]
    assert any("sav" in f.claim for f in found), [f.claim for f in found]


def test_a_run_that_was_killed_is_judged_by_its_steps(run, monkeypatch):
    events = [event for event in run.events() if event["kind"] != "end"]
    monkeypatch.setattr(RunDir, "events", lambda self: events)
    case = case_of_run(run)
    assert any(each.startswith("data.path=") for each in case.arguments), case.arguments
    whole = sum(step.wall for step in steps(events))
    asides = sum(each.seconds for each in (*case.evaluations, *case.saves))
    assert case.seconds == pytest.approx(whole + asides, rel=1e-6)


def test_a_run_without_a_step_is_not_judged(run, monkeypatch):
    monkeypatch.setattr(RunDir, "events", lambda self: [])
    with pytest.raises(DataError, match="no step in its log"):
        case_of_run(run)


def test_the_command_judges_a_run_and_says_what_its_record_lacks(run, tmp_path, capsys):
    assert main(["doctor", str(run.path), "--json", str(tmp_path / "found.json")]) == 0
    assert "hotloop doctor RECIPE" in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "found.json").read_text())["findings"] is not None
