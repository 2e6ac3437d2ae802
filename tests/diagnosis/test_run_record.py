"""hotloop doctor RUN_DIR: the record of a run of hotloop train is judged by the same rules."""

import json

import pytest
from tests.manyranks import GIB, OWN, add, log, made, slowed

from hotloop.cli.main import main
from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.steps_and_loaders import ROWS
from hotloop.core.errors import DataError
from hotloop.core.events import event_line, steps
from hotloop.core.storage.rundir import RunDir
from hotloop.diagnosis.run_record import case_of_run
from hotloop.diagnosis.script import judge_again
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request

STEPS = 12


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("recorded") / "run"
    own = [f"training.max_steps={STEPS}", "training.eval_every_steps=6", "training.log_every=1"]
    keys = {text.partition("=")[0] for text in own}
    train.train(
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
    monkeypatch.setattr(RunDir, "events", lambda self, **_: events)
    _, diagnosis = judge_again(run.path)
    found = [f for f in diagnosis.findings if f.severity in ("warn", "critical")]
    assert any("sav" in f.claim for f in found), [f.claim for f in found]


def test_a_run_that_was_killed_is_judged_by_its_steps(run, monkeypatch):
    events = [event for event in run.events() if event["kind"] != "end"]
    monkeypatch.setattr(RunDir, "events", lambda self, **_: events)
    case = case_of_run(run)
    assert any(each.startswith("data.path=") for each in case.arguments), case.arguments
    whole = sum(step.wall for step in steps(events))
    asides = sum(each.seconds for each in (*case.evaluations, *case.saves))
    assert case.seconds == pytest.approx(whole + asides, rel=1e-6)


def test_a_run_without_a_step_is_not_judged(run, monkeypatch):
    monkeypatch.setattr(RunDir, "events", lambda self, **_: [])
    with pytest.raises(DataError, match="no step in its log"):
        case_of_run(run)


def test_the_command_judges_a_run_and_says_what_its_record_lacks(run, tmp_path, capsys):
    assert main(["doctor", str(run.path), "--json", str(tmp_path / "found.json")]) == 0
    assert "hotloop doctor RECIPE" in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "found.json").read_text())["findings"] is not None


def found(run, rule):
    """Return what the doctor finds by a rule, or None."""
    _, diagnosis = judge_again(run.path)
    return next((f for f in diagnosis.findings if f.rule.startswith(f"{rule} ")), None)


def of_ranks(diagnosis):
    """Return what it says of several processes."""
    return [f.rule for f in diagnosis.findings if f.rule.startswith("M")]


def test_one_process_is_judged_as_before(run, tmp_path):
    """No row, figure or sentence of ranks, whatever the rest of the record."""
    case = case_of_run(run)
    assert case.process == ProcessFacts()
    assert set(case.wall) == {
        "start", "compile", "data wait", "forward", "backward", "optimizer", "after step",
        "evaluate", "save",
    }  # fmt: skip
    assert set(case.steps.rows) == {"data wait", "forward", "backward", "optimizer"}
    alone = case_of_run(made(tmp_path / "alone", world=1))
    assert alone.process == ProcessFacts()
    assert alone.not_checked == case.not_checked
    assert "exchange" not in {**alone.wall, **alone.steps.rows}


def test_the_figures_of_all_ranks_stand_beside_those_of_the_first(tmp_path):
    case = case_of_run(made(tmp_path / "run", travels=0.02, memory=[GIB, 1.1 * GIB]))
    process = case.process
    assert (process.world, process.rank, process.backend) == (2, 0, "gloo")
    assert (process.hosts, process.ranked) == (("here", "here"), ())
    expected = {
        "memory": [GIB, 1.1 * GIB],
        "step": [0.12] * 2,
        "tokens": [800] * 2,
        "data wait": [OWN["data"]] * 2,
        "forward": [OWN["forward"]] * 2,
        "backward": [OWN["backward"]] * 2,
        "optimizer": [OWN["update"]] * 2,
        "communication": [0.02] * 2,
    }
    assert {name: list(values) for name, values in process.ranks.items()} == {
        name: pytest.approx(values) for name, values in expected.items()
    }
    assert (case.steps.samples, case.steps.backwards) == (4.0, 2.0)


@pytest.mark.parametrize("end", [True, False], ids=["ended", "killed"])
def test_the_exchange_has_a_row_and_every_second_one(tmp_path, end):
    run = made(tmp_path / "run", travels=0.02, end=end)
    case, made_ = case_of_run(run), steps(run.events())
    assert case.row("exchange") == pytest.approx(40 * 0.02)
    assert case.row("backward") == pytest.approx(40 * 0.05)
    assert case.steps.rows["exchange"] == pytest.approx([0.02] * 39)
    outside = 0.51 if end else 0.0
    assert case.seconds == pytest.approx(sum(step.wall for step in made_) + outside)


def test_an_exchange_that_the_ledger_tells_apart_is_not_counted_twice(tmp_path):
    run = made(tmp_path / "run", travels=0.02, end=False)
    wall = {"start": 0.5, "data wait": 0.4, "step": 3.6, "exchange": 0.8, "other": 0.0}
    add(run, 0, [event_line("end", step=40, t=9.0, reason="complete", wall=wall)])
    case = case_of_run(run)
    assert case.row("exchange") == 0.8
    assert case.seconds == pytest.approx(sum(wall.values()))


def test_ranks_that_are_alike_are_not_worth_a_word(tmp_path):
    _, diagnosis = judge_again(made(tmp_path / "run", travels=0.002).path)
    assert of_ranks(diagnosis) == []
    alone = judge_again(made(tmp_path / "alone", world=1).path)[1]
    assert diagnosis.not_checked == alone.not_checked, "nor is anything unchecked but for them"


def test_the_rank_whose_data_are_slow_is_named(tmp_path):
    run = made(tmp_path / "run", own=slowed(1, data=4.0), hosts=["node-a", "node-b"])
    finding = found(run, "M4")
    assert finding.severity == "critical"
    assert "process 1 (on node-b) takes 30 ms longer" in finding.claim
    assert finding.claim.endswith(": data wait")
    assert "look at what process 1 (on node-b) reads" in finding.remedies[0].text
    assert found(run, "M3") is None, "it waits for nobody: this is not the exchange"


def test_the_rank_that_computes_slowly_is_named(tmp_path):
    run = made(tmp_path / "run", own=slowed(1, forward=1.15, backward=1.15, update=1.15))
    finding = found(run, "M4")
    assert finding.severity == "warn"
    assert finding.claim.endswith("computing (forward, backward and update alike)")
    assert "its clock, its temperature, other processes" in finding.remedies[0].text
    assert finding.evidence["forward"] == "30 ms, 34.5 ms"


def test_the_rank_that_has_more_to_compute_has_no_slow_gpu(tmp_path):
    own = slowed(1, forward=1.15, backward=1.15, update=1.15)
    finding = found(made(tmp_path / "run", own=own, tokens=[800, 920]), "M4")
    assert finding.claim.endswith("of 15% more tokens")
    assert "clock" not in " ".join(remedy.text for remedy in finding.remedies)


@pytest.mark.parametrize(("share", "severity"), [(0.08, None), (0.15, "warn"), (0.25, "critical")])
def test_the_exchange_is_judged_by_its_share_of_a_step(tmp_path, share, severity):
    run = made(tmp_path / "run", travels=0.1 * share / (1 - share))
    finding = found(run, "M3")
    assert (finding and finding.severity) == severity
    if finding is not None:
        assert f"{share:.0%} of a step" in finding.claim
        assert not any("no_sync" in remedy.text for remedy in finding.remedies), "no code to edit"


@pytest.mark.parametrize(("factor", "severity"), [(1.1, None), (1.25, "note"), (1.4, "warn")])
def test_the_rank_that_needs_most_memory_is_named(tmp_path, factor, severity):
    run = made(tmp_path / "run", world=3, memory=[GIB, GIB, factor * GIB])
    finding = found(run, "M8")
    assert (finding and finding.severity) == severity
    if finding is not None:
        assert finding.claim.startswith("process 2 (on here) needs 1.")
        assert not any("torch.load" in remedy.text for remedy in finding.remedies)


def test_gpus_that_do_not_talk_by_nccl_are_found(tmp_path):
    slow = made(tmp_path / "gloo", device="cuda", clock="device")
    assert found(slow, "M2").claim == "2 processes on GPUs exchange gradients by gloo"
    assert "init_process_group" not in found(slow, "M2").remedies[0].text
    assert found(made(tmp_path / "nccl", device="cuda", backend="nccl"), "M2") is None
    assert found(made(tmp_path / "cpu"), "M2") is None


def test_a_rank_that_left_no_log_is_said_and_the_others_keep_their_numbers(tmp_path):
    own = slowed(2, data=4.0)
    run = made(tmp_path / "run", world=3, own=own, travels=0.05, leave_out=[1], memory=[GIB] * 3)
    case, diagnosis = judge_again(run.path)
    assert any(said.startswith("rank 1 of 3 left no log") for said in diagnosis.not_checked)
    assert case.process.ranked == (0, 2)
    assert "process 2 (on here) takes 30 ms longer" in found(run, "M4").claim
    assert found(run, "M3") is None, "the one that is missing may be what all wait for"


def test_a_run_of_which_one_log_is_left_is_judged(tmp_path):
    run = made(tmp_path / "run", own=slowed(1, data=4.0), travels=0.05, leave_out=[1])
    _, diagnosis = judge_again(run.path)
    assert of_ranks(diagnosis) == []
    assert any(said.startswith("rank 1 of 2 left no log") for said in diagnosis.not_checked)


def test_after_ranks_went_the_newest_are_judged(tmp_path):
    run = made(tmp_path / "run", world=4, own=slowed(3, data=9.0), end=False)
    run.update(ranks={"world": 2, "backend": "gloo", "hosts": ["a", "b"]})
    for rank in (0, 1):
        lines = log(rank, 2, numbers=range(31, 51), own=slowed(1, forward=2.0), tokens=[1600] * 2)
        add(run, rank, [line.replace('"samples":8', '"samples":16') for line in lines])
    case = case_of_run(run)
    late = found(run, "M4")
    assert late.claim.endswith("process 1 (on b) takes 30 ms longer for each step than the others, "
                               "which wait: computing (above all forward)")  # fmt: skip
    assert [each.text.partition(":")[0] for each in late.remedies] == [
        "look at the processor or GPU of process 1 (on b)"
    ]
    assert (case.steps.backwards, case.steps.samples) == (4.0, 4.0)
    assert case.steps.tokens == 400


def test_what_is_said_of_a_rank_does_not_hang_on_a_hiccup(tmp_path):
    """One step of 30 times the length, as after a checkpoint, names nobody."""

    def own(rank, step):
        return {**OWN, "forward": OWN["forward"] * (30 if (rank, step) == (1, 20) else 1)}

    assert found(made(tmp_path / "run", own=own), "M4") is None
    late = found(made(tmp_path / "late", own=lambda r, n: own(r, 20)), "M4")
    assert late is not None, "where it is every step, it is no hiccup"


def test_steps_in_which_others_are_late_send_nobody_to_the_exchange(tmp_path):
    def own(rank, step):
        return {**OWN, "data": 0.5 if (rank, step % 10) == (1, 0) else OWN["data"]}

    finding = found(made(tmp_path / "run", steps=120, own=own), "H14")
    assert "the time goes into exchange" in finding.claim
    assert "what the other processes do in these steps" in finding.remedies[0].text


def test_a_case_of_ranks_is_json(tmp_path):
    case = case_of_run(made(tmp_path / "run", world=3, leave_out=[1]))
    back = type(case).from_json(json.loads(json.dumps(case.to_json())))
    assert back == case
