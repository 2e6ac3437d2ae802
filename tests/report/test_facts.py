import json

import pytest
from tests.report.conftest import session, step, usual

from hotloop.core.errors import UsageError
from hotloop.core.storage.rundir import RunDir
from hotloop.report.facts import read_facts


def test_a_whole_run(made):
    run = read_facts(made("first", usual(40)))
    assert (run.recipe, run.status, run.name, run.planned_steps) == (
        "char-lm", "complete", "first", 40
    )  # fmt: skip
    assert run.settings["model.width"] == "16"
    assert run.data["source words.txt"] == "bytes 2,000"
    assert run.data["train tokens"] == "12,345"
    assert run.best == (pytest.approx(3.1), 40)
    assert run.peak_memory == 2**30 + 40
    assert sum(run.wall.values()) == pytest.approx(5.5, abs=0.01)
    assert run.gaps == ()
    assert run.path.is_absolute()


def test_throughput_and_mfu_are_those_of_the_steady_steps(made):
    run = read_facts(made("first", usual(40)))
    assert run.throughput is not None
    assert run.throughput.n == 37
    assert run.throughput.median == pytest.approx(1200, rel=0.02)
    assert run.mfu == pytest.approx(run.throughput.median * 1e5 / 1e9)


def test_planned_asked_for_and_in_effect_come_together(made):
    run = read_facts(made("first", usual(5)))
    by_id = {each.id: each for each in run.techniques}
    adamw, sdpa = by_id["fused-adamw"], by_id["sdpa"]
    assert (adamw.origin, adamw.reason, adamw.word) == ("auto", "one kernel", "in effect")
    assert sdpa.name == "sdpa(backend=auto)"
    assert (sdpa.origin, sdpa.reason, sdpa.word, sdpa.how) == (None, None, None, None)


def test_where_losses_are_read_late_an_interval_is_a_reading(made):
    effects = [{"technique": "lagged-loss-read", "word": "in effect"}]
    assert read_facts(made("lagged", usual(40), effects=effects)).stride == 10
    refused = [{"technique": "lagged-loss-read", "word": "refused"}]
    assert read_facts(made("refused", usual(40), effects=refused)).stride == 1
    hostile = {"training.log_every": "0"}
    assert read_facts(made("hostile", usual(5), effects=effects, config=hostile)).stride == 1


def test_an_older_run_knows_less_and_nothing_is_guessed(made):
    gone = dict.fromkeys(("loss_unit", "precision", "flops_per_token", "effects", "choices"))
    run = read_facts(made("old", usual(40), **gone))
    assert (run.loss_unit, run.precision, run.flops_per_token, run.mfu) == (None,) * 4


def test_a_run_without_events(made):
    run = read_facts(made("zero", [], status="running"))
    assert (run.best, run.throughput, run.peak_memory, run.wall, run.mfu) == (
        None, None, None, {}, None
    )  # fmt: skip


HOSTILE = ["x", 3, True, [], [1, [2]], {"a": {"b": [1]}}, {"x": None}, 10**400, -5, "\ud800"]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_record_of_wrong_types_is_unknown_and_never_a_crash(made, value):
    run = RunDir(made("hostile", usual(5)))
    fields = json.loads((run.path / "run.json").read_text())
    wrong = {key: value for key in fields if key != "schema"}
    (run.path / "run.json").write_text(json.dumps({**wrong, "schema": 1}))
    facts = read_facts(run.path)
    assert facts.hardware is None
    assert "hardware" in facts.gaps[0]
    assert facts.planned_steps in (None, 3, -5, 10**400)


def test_a_plan_that_cannot_be_read_is_a_gap(made):
    path = made("gap", usual(5))
    (path / "plan.json").write_text('{"schema": 9}')
    run = read_facts(path)
    assert run.plan is None
    assert "schema" in run.gaps[0]
    assert [each.id for each in run.techniques] == ["fused-adamw"], "what was in effect is known"


def test_no_run_and_a_damaged_one_are_named(made, tmp_path):
    with pytest.raises(UsageError, match="no run folder"):
        read_facts(tmp_path)
    path = made("damaged", [session(), step(1, t=1.1), '{"v": 1}', step(2, t=1.2)])
    run = read_facts(path)
    assert [each.trace.step for each in run.history.steps] == [1, 2]
    ((_, text),) = run.history.notes
    assert "events-r0.jsonl:3" in text


def test_many_sources_are_counted_not_listed(made):
    sources = [{"name": f"{n}.txt", "bytes": n} for n in range(10_000)]
    run = read_facts(made("many", usual(5), data={"sources": sources}))
    assert len(run.data) == 21
    assert run.data["more sources"] == "9,980"
