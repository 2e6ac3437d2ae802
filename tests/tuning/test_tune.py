import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.faked import BASE, Spec, Target

from hotloop.core.errors import DataError, PlanError, UsageError
from hotloop.core.plan import Use
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import RunDir
from hotloop.core.tuning_result import Tuned
from hotloop.jobs.request import read_plan
from hotloop.machine.identity import identity
from hotloop.machine.threads import Load
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.moves import added
from hotloop.tuning.trial_process import TrialEnded
from hotloop.tuning.tune import TuneRequest, tune

FREEZE, CACHE = Use.of("gc-freeze"), Use.of("vectorised-reads")
FAST = Spec(step=0.05)


def quiet() -> Load:
    return Load(at=time.perf_counter(), everyone=0.0, own=0.0)


def tuned(
    folder: Path, of=None, *, seconds=600.0, uses=(FREEZE, CACHE), look=quiet, **more
) -> Tuned:
    wanted = TuneRequest(seconds=seconds, pace=RaceLength(rounds=8, pairs=1))
    target = Target(of)
    return tune(
        target,
        folder,
        wanted,
        name=("train.py", "--size", "2"),
        propose=lambda base: [added(use) for use in uses],
        look=look,
        clock=lambda: target.now,
        **more,
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


ONE = {("gc-freeze",): FAST, ("gc-freeze", "vectorised-reads"): FAST}


def test_the_folder_holds_the_record_the_rows_the_result_and_the_plan(folder):
    found = tuned(folder, ONE)
    assert found.is_proved
    assert found.plan == BASE.plus("gc-freeze")
    assert sorted(path.name for path in folder.iterdir()) == [
        "plan.json", "run.json", "trials.json", "trials.jsonl",
    ]  # fmt: skip
    record = RunDir(folder).read()
    assert (record["kind"], record["status"]) == ("tune", "complete")
    assert record["target"] == ["train.py", "--size", "2"]
    assert Tuned.from_json(read_json(RunDir(folder).trials)) == found
    assert list(found.phases) == ["the recipe as it is", "techniques", "the proof"]
    assert sum(found.phases.values()) <= found.seconds


def test_the_journal_has_each_row_as_it_was_made_and_the_proof(folder):
    seen = []
    found = tuned(folder, ONE, row=lambda row: seen.append((row.name, journal(folder))))
    names = ["as it is", "gc-freeze", "gc-freeze", "vectorised-reads"]
    assert [name for name, _ in seen] == names
    assert [len(lines) for _, lines in seen] == [1, 2, 3, 4], "on disk before it is shown"
    assert [row["name"] for row in journal(folder)] == names
    assert journal(folder)[2]["decision"] == "proved", "which is known before the rest is tried"
    assert found.rows[-1].decision == "dropped"


def test_what_is_paid_once_has_rows_of_its_own_also_under_the_plan_that_was_proved(folder):
    slow_start = replace(FAST, first=9.0)
    found = tuned(folder, {("gc-freeze",): slow_start, ("gc-freeze", "vectorised-reads"): FAST})
    start, warm = found.costs
    assert (start.what, start.before, start.after) == ("start", 1.0, 9.0)
    assert (warm.what, warm.before, warm.after) == ("warm-up", pytest.approx(0), pytest.approx(0))
    slower = {("gc-freeze",): Spec(step=0.2), ("vectorised-reads",): Spec(step=0.2)}
    assert tuned(folder.with_name("other"), slower).costs[0].after is None


@pytest.mark.parametrize(("cores", "notes"), [(0.1, ()), (1.5, ("other programs used 1.5 cores",))])
def test_a_machine_that_others_use_is_said_to_be_busy(folder, cores, notes):
    looks = iter(
        [Load(at=0.0, everyone=0.0, own=0.0), Load(at=10.0, everyone=12 + 10 * cores, own=12)]
    )
    found = tuned(folder, ONE, look=lambda: next(looks))
    assert tuple(note.partition(" meanwhile")[0] for note in found.notes) == notes


def journal(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def test_the_plan_says_where_it_was_measured_and_is_taken_here_only(folder):
    plan = tuned(folder, ONE).plan
    raw = read_json(folder / "plan.json")
    assert raw["measured"] == identity()
    assert read_plan(folder) == read_plan(folder / "plan.json") == plan
    there = {**identity(), "torch": "1.0"}
    with pytest.raises(PlanError, match="proved elsewhere"):
        read_plan(folder, here=lambda: there)


def test_ctrl_c_keeps_what_was_proved(folder):
    stops = {**ONE, ("gc-freeze", "vectorised-reads"): Spec(ends=KeyboardInterrupt())}
    found = tuned(folder, stops)
    assert found.stopped.startswith("stopped after ")
    assert found.said.startswith("2.00x (2.00-2.00) as fast as the baseline; ")
    assert found.plan == BASE.plus("gc-freeze")
    assert [row.name for row in found.rows] == ["as it is", "gc-freeze"]
    assert RunDir(folder).read()["status"] == "stopped"
    assert Tuned.from_json(read_json(RunDir(folder).trials)) == found


def test_ctrl_c_before_anything_was_measured_leaves_a_result_that_says_so(folder):
    found = tuned(folder, {(): Spec(ends=KeyboardInterrupt())})
    assert (found.rows, found.plan, found.is_proved) == ((), BASE, False)
    assert found.said.startswith("nothing was tried: stopped after")


def test_a_target_that_cannot_run_leaves_a_record_that_says_why(folder):
    with pytest.raises(DataError, match="SyntaxError"):
        tuned(folder, {(): Spec(ends=TrialEnded("failed", "SyntaxError"))})
    record = RunDir(folder).read()
    assert record["status"] == "failed"
    assert "SyntaxError" in record["reason"]


def test_what_the_budget_did_not_reach_is_said(folder):
    found = tuned(folder, ONE, seconds=1.0)
    assert found.stopped == "the budget was used up before gc-freeze, vectorised-reads"
    assert found.plan == BASE
    assert found.said.startswith("nothing was tried: the budget was used up")


def test_a_folder_that_is_used_is_left_alone(folder):
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="name another one with --out"):
        tuned(folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_what_is_done_is_told(folder):
    said = []
    tuned(folder, ONE, notify=said.append)
    assert [each for each in said if not each.startswith(("round", "started"))] == [
        "as it is",
        "gc-freeze",
        "vectorised-reads",
        "the proof: the result against what it was",
    ]
