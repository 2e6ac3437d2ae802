import json
import shlex
import subprocess
import sys

import pytest

from hotloop.core.errors import DataError, PlanError, UsageError, WriteError
from hotloop.core.events import event_line
from hotloop.core.plan import Plan
from hotloop.core.storage.rundir import SCHEMA, RunDir

PLAN = Plan(micro_batch=4).plus("tf32")


@pytest.fixture(params=["run", "my first run's"])
def run(request, tmp_path):
    return RunDir(tmp_path / "runs" / request.param)


@pytest.fixture
def made(run):
    run.create({"recipe": "char-lm", "status": "new"}, PLAN)
    return run


def test_a_run_has_its_record_plan_and_folder_of_checkpoints(run):
    assert not run.exists
    run.create({"recipe": "char-lm", "status": "new"}, PLAN)
    assert run.exists
    assert sorted(path.name for path in run.path.iterdir()) == [
        "checkpoints",
        "plan.json",
        "run.json",
    ]
    again = RunDir.open(run.path)
    assert again == run
    assert again.read() == {"schema": SCHEMA, "recipe": "char-lm", "status": "new"}
    assert again.plan() == PLAN
    assert again.checkpoints.is_dir()
    assert again.events() == []


def test_update_replaces_some_fields(made):
    made.update(status="running", final={"step": 3})
    expected = {"schema": 1, "recipe": "char-lm", "status": "running", "final": {"step": 3}}
    assert made.read() == expected


def test_events_are_those_of_the_journal_by_rank(made):
    for rank in (0, 1):
        journal = made.journal(rank)
        journal.append([event_line("note", step=rank, t=0.0, text="x")])
        journal.close()
    assert [event["step"] for rank in (0, 1) for event in made.events(rank)] == [0, 1]
    assert made.events(2) == []


def test_the_report_lies_beside_the_run_and_does_not_make_it_another(made):
    made.report.write_text("<!doctype html>")
    assert made.report.parent == made.path
    assert made.exists


def test_void_events_are_read_only_when_asked_for(made):
    journal = made.journal()
    journal.append([event_line("note", step=1, t=0.0, text="x")])
    journal.append([event_line("resumed_from", step=0, t=0.0)])
    journal.close()
    assert [event["kind"] for event in made.events()] == ["resumed_from"]
    assert [event["kind"] for event in made.events(void=True)] == ["note", "resumed_from"]


def test_the_vocabulary_lies_beside_the_run(run):
    run.keep({"vocabulary.json": '{"é": 1}'})
    assert run.vocabulary.parent == run.path
    assert json.loads(run.vocabulary.read_text()) == {"é": 1}


# Refusals


def test_a_used_folder_is_refused_with_the_command_that_goes_on(made):
    before = sorted(made.path.rglob("*"))
    for refused in (made.refuse_if_used, lambda: made.create({}, PLAN)):
        with pytest.raises(UsageError) as caught:
            refused()
        said = str(caught.value)
        assert "--out" in said
        assert made.resume_command in said
    assert sorted(made.path.rglob("*")) == before
    assert made.read()["recipe"] == "char-lm"


def test_the_resume_command_can_be_typed_as_it_is(run):
    words = shlex.split(run.resume_command)
    assert words == ["hotloop", "train", "--resume", str(run.path)]


@pytest.mark.parametrize("kind", ["file", "folder", "checkpoints with a checkpoint", "events"])
def test_a_folder_of_something_else_is_refused(run, kind):
    run.path.parent.mkdir()
    if kind == "file":
        run.path.write_text("mine")
    else:
        run.path.mkdir()
        (run.path / "plan.json").write_text("{}")
    if kind == "folder":
        (run.path / "thesis.tex").write_text("mine")
    elif kind == "events":
        (run.path / "events-r0.jsonl").write_text("mine")
    elif kind.startswith("checkpoints"):  # of a run whose run.json was lost
        (run.checkpoints / "step-00000007").mkdir(parents=True)
    before = sorted(run.path.parent.rglob("*"))
    for refused in (run.refuse_if_used, lambda: run.create({}, PLAN)):
        with pytest.raises(UsageError, match="is not an empty folder; name another one with --out"):
            refused()
    assert sorted(run.path.parent.rglob("*")) == before


LEFT = {
    "nothing": [],
    "folder": ["checkpoints/"],
    "plan": ["checkpoints/", "plan.json"],
    "lock": ["checkpoints/", "plan.json", "lock.json"],
    "vocabulary": ["vocabulary.json", "checkpoints/"],
    "temps": ["checkpoints/", ".tmp-run.json-42-0123abcd", "checkpoints/.tmp-probe-42-0123abcd"],
    "hidden": [".gitignore", "checkpoints/"],
}


@pytest.mark.parametrize("left", LEFT)
def test_what_a_killed_start_left_can_be_used(run, left):
    for name in LEFT[left]:
        path = run.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text("")
    assert not run.exists
    run.create({"recipe": "char-lm"}, PLAN)
    assert run.plan() == PLAN
    assert run.read()["recipe"] == "char-lm"


def test_what_is_no_run_folder_is_named(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError, match=r"is no run folder \(it has no run\.json\)"):
            RunDir.open(path)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="in the way"):
        RunDir(tmp_path / "file" / "run").create({}, PLAN)
    with pytest.raises(WriteError, match="shorter name"):
        RunDir(tmp_path / ("x" * 300)).create({}, PLAN)
    with pytest.raises(UsageError, match="no run folder"):
        RunDir.open(tmp_path / ("x" * 300))


@pytest.mark.parametrize("schema", [2, "1", None])
def test_the_record_of_another_version_is_refused(made, schema):
    (made.path / "run.json").write_text(json.dumps({"schema": schema, "recipe": "char-lm"}))
    for refused in (made.read, lambda: made.update(status="x")):
        with pytest.raises(DataError, match=r"run\.json has schema .*, this version of hotloop"):
            refused()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "schema": 1}'])
def test_a_damaged_record_is_named(made, text):
    (made.path / "run.json").write_text(text)
    with pytest.raises(DataError, match=r"run\.json "):
        made.read()


def test_a_damaged_plan_is_named(made):
    (made.path / "plan.json").write_text('{"schema": 1, "micro_bach": 4}')
    with pytest.raises(PlanError, match=r"plan\.json: unknown key 'micro_bach' .*did you mean"):
        made.plan()
    (made.path / "plan.json").unlink()
    with pytest.raises(DataError, match=r"cannot read .*plan\.json: No such file"):
        made.plan()


# Two processes


def test_a_folder_in_use_is_refused_by_its_lock(made):
    lock = made.lock()
    lock.acquire()
    with pytest.raises(UsageError, match="in use by process"):
        made.lock().acquire()
    lock.release()
    made.lock().acquire()


CREATE = """
import random, sys, time
from pathlib import Path
from hotloop.core.errors import UsageError
from hotloop.core.plan import Plan
from hotloop.core.storage.rundir import RunDir
me = int(sys.argv[1])
draw = random.Random(me)
def dawdle(event, args):  # so that every order of the steps of two processes comes up
    if event in ("open", "fcntl.flock") and draw.random() < 0.3:
        time.sleep(draw.random() * 0.01)
sys.addaudithook(dawdle)
for line in sys.stdin:
    try:
        RunDir(Path(line.strip())).create({"by": me}, Plan(micro_batch=me))
        print("created", flush=True)
    except UsageError:
        print("refused", flush=True)
"""


def test_of_two_processes_that_start_in_one_folder_one_gets_it(tmp_path):
    both = [
        subprocess.Popen(
            [sys.executable, "-c", CREATE, f"{me}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in (1, 2)
    ]
    for number in range(40):
        run = RunDir(tmp_path / str(number))
        for process in both:
            process.stdin.write(f"{run.path}\n")
            process.stdin.flush()
        answers = [process.stdout.readline().strip() for process in both]
        assert sorted(answers) == ["created", "refused"]
        winner = 1 + answers.index("created")
        assert run.read()["by"] == winner
        assert run.plan() == Plan(micro_batch=winner)
    for process in both:
        process.communicate()
