import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from benchmarks.diagnosed import RECORDED, recorded
from tests.golden.slow_run import CASE
from tests.preloaded import run_child

from hotloop.core.case.experiment import Experiment
from hotloop.core.finding import SourceLocation
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.core.trial import Trial
from hotloop.rules.diagnose import diagnose
from hotloop.rules.tried import share_of_run
from hotloop.techniques.base import Numerics
from hotloop.tuning import script_target
from hotloop.tuning.expected_gain import best_refused, promised
from hotloop.tuning.script_target import DoctorFacts, Script, costs, edits, moves
from hotloop.tuning.trial_process import TrialEnded

BASE = Plan(micro_batch=1)
CPU = Hardware(device="cpu", name="a CPU", cores=4.0, cpu_features=frozenset({"avx2"}))
GPU = Hardware(device="cuda", name="a GPU", memory_bytes=10 << 30, cores=4.0, capability=(9, 0))


def seen(name: str, **changes) -> DoctorFacts:
    case = replace(recorded(RECORDED / f"{name}.json"), **changes)
    return DoctorFacts(case=case, diagnosis=diagnose(case))


def why(found: DoctorFacts, id: str) -> set[str | None]:
    return {move.why_not for move in moves(CPU, found) if move.ids == (id,)}


def test_what_the_doctor_names_comes_first():
    names = [move.ids[0] for move in moves(CPU, seen("slow-slow_getitem"))]
    assert names[0] == "sample-cache"
    assert names.index("loader-workers") < names.index("threads")
    assert next(move.ids[0] for move in moves(CPU, None)) == "sample-cache"


def tried(name: str, gain: float | None) -> Experiment:
    low = None if gain is None else gain - 0.01
    high = None if gain is None else gain + 0.01
    return Experiment(name=name, what="", blocks=12, steps=60, gain=gain, low=low, high=high)


def test_what_an_experiment_gained_comes_first_by_its_gain():
    experiments = (
        tried("fused optimizer", 1.1),
        tried("ready samples", 1.3),
        tried("worker process", 2.0),
        tried("channels last", 1.0),
        tried("kept memory", None),
    )
    facts = seen("slow-slow_getitem", experiments=experiments)
    names = list(dict.fromkeys(move.ids[0] for move in moves(CPU, facts)))
    assert names[:3] == ["loader-workers", "sample-cache", "fused-adamw"]
    assert names.index("channels-last") > names.index("compile")  # it gains nothing there


def test_what_mends_a_finding_above_a_note_comes_before_what_only_acts_on_much():
    facts = seen("slow-overthreaded_cpu", experiments=())
    named = {
        finding.severity
        for finding in facts.diagnosis.findings
        for remedy in finding.remedies
        if remedy.technique == "threads"
    }
    assert "critical" in named
    assert next(move.ids[0] for move in moves(CPU, facts)) == "threads"
    measured = seen("slow-overthreaded_cpu", experiments=(tried("fused optimizer", 1.2),))
    names = list(dict.fromkeys(move.ids[0] for move in moves(CPU, measured)))
    assert names[:2] == ["fused-adamw", "threads"]
    assert {move.ids[0] for move in moves(CPU, measured) if move.is_urgent} >= {"threads"}


@pytest.mark.parametrize(
    ("highest", "left"),
    [
        (1.21, ["threads(count=2)", "threads(count=4)"]),  # 1 thread is slower for certain
        (3.0, ["threads(count=2)", "threads(count=1)", "threads(count=4)"]),
    ],
)
def test_the_number_of_threads_that_was_fastest_in_experiments_is_tried_first(highest, left):
    one = replace(tried("threads", 1.2), count=1, high=highest)
    two = replace(tried("threads", 2.9), count=2)
    four = replace(tried("threads", None), count=4)
    facts = seen("slow-overthreaded_cpu", experiments=(one, two, four))
    assert [move.name for move in moves(CPU, facts) if move.ids == ("threads",)] == left


def test_an_undecided_experiment_promises_what_it_saw():
    undecided = Experiment(
        name="fused optimizer", what="", blocks=12, steps=60, gain=4.0, low=0.9, high=7.0
    )
    without = seen("slow-slow_getitem", experiments=()).case
    case = replace(without, experiments=(undecided,))
    assert undecided.outcome == "unknown"
    assert promised(without, "fused-adamw") == without.share("optimizer")
    assert promised(case, "fused-adamw") == share_of_run(case, undecided) > 0.5


def test_what_has_next_to_nothing_to_take_away_comes_last():
    facts = seen("slow-slow_getitem", experiments=())
    wall = {**facts.case.wall, "optimizer": 1e-6}
    facts = replace(facts, case=replace(facts.case, wall=wall))
    names = list(dict.fromkeys(move.ids[0] for move in moves(CPU, facts)))
    assert names.index("fused-adamw") > names.index("compile")


def test_what_is_not_tried_without_leave_says_what_it_promises():
    case = replace(seen("slow-slow_getitem").case, experiments=(tried("cut rows", 1.8),))
    assert "length-bucketing" in (said := best_refused(case, Numerics.ROUNDING) or "")
    assert "1.80x" in said
    assert (
        best_refused(replace(case, experiments=(tried("cut rows", 1.0),)), Numerics.ROUNDING)
        is None
    )
    assert best_refused(replace(case, experiments=()), Numerics.ROUNDING) is None


@pytest.mark.parametrize(
    ("threads", "busy", "is_tried"), [(1, 0.0, True), (2, 0.1, False), (1, 1.3, False)]
)
def test_other_threads_are_tried_where_cores_are_free_or_too_few(threads, busy, is_tried):
    facts = seen("slow-slow_getitem")
    process = replace(facts.case.process, threads=threads, other_cores=busy)
    hardware = replace(facts.case.hardware, cores=2.0)
    facts = replace(facts, case=replace(facts.case, process=process, hardware=hardware))
    assert (why(facts, "threads") == {None}) is is_tried


def test_counts_are_those_that_this_machine_has_cores_for():
    names = [move.name for move in moves(CPU, None)]
    assert [name for name in names if name.startswith("threads")] == [
        "threads(count=1)", "threads(count=2)", "threads(count=4)",
    ]  # fmt: skip
    assert [name for name in names if name.startswith("loader-workers")] == [
        "loader-workers(count=1)", "loader-workers(count=2)", "loader-workers(count=4)",
        "loader-workers with ahead=4",
    ]  # fmt: skip
    one = replace(CPU, cores=0.5)
    assert [m.name for m in moves(one, None) if m.ids == ("threads",)] == ["threads(count=1)"]


def test_no_workers_are_among_the_candidates_where_the_script_has_some():
    found = seen("slow-slow_getitem")
    loaders = tuple(replace(loader, workers=2) for loader in found.case.loaders)
    busy = DoctorFacts(case=replace(found.case, loaders=loaders), diagnosis=found.diagnosis)
    names = [move.name for move in moves(CPU, busy)]
    assert "loader-workers(count=0)" in names
    assert "loader-workers(count=0)" not in [move.name for move in moves(CPU, found)]


def accumulating(passes: float, rows: int = 2) -> DoctorFacts:
    found = seen("hf-slow_getitem")
    loaders = tuple(replace(loader, batch_size=rows) for loader in found.case.loaders)
    steps = replace(found.case.steps, backwards=passes)
    return replace(found, case=replace(found.case, steps=steps, loaders=loaders))


def test_micro_batches_are_tried_that_divide_what_a_trainer_accumulates():
    def names(found: DoctorFacts | None) -> list[str]:
        return [move.name for move in moves(CPU, found) if move.ids == ("micro-batch",)]

    assert names(accumulating(8.0)) == [
        f"micro-batch(factor={factor})" for factor in ("x2", "x4", "x8", "1/2")
    ]
    assert names(accumulating(6.0, rows=3)) == ["micro-batch(factor=x2)"]
    assert names(None) == []
    assert why(accumulating(1.0), "micro-batch") == {
        "it accumulates no gradients: an optimizer step is one micro batch"
    }
    assert why(seen("clean-accumulation"), "micro-batch") == {
        "no Trainer of transformers divides its optimizer steps"
    }


def test_the_micro_batch_that_the_doctor_measured_comes_first():
    joined = replace(tried("joined batches", 1.9), count=4)
    facts = accumulating(8.0)
    facts = replace(facts, case=replace(facts.case, experiments=(joined,)))
    found = [move for move in moves(CPU, facts) if move.ids == ("micro-batch",)]
    assert moves(CPU, facts)[0].name == "micro-batch(factor=x4)"
    assert found[0].gain == share_of_run(facts.case, joined)
    assert found[0].gain > 0.1
    assert [move.name for move in found[1:]] == [
        f"micro-batch(factor={factor})" for factor in ("x2", "x8", "1/2")
    ]


def test_what_has_nothing_to_do_on_a_script_is_not_tried_and_says_why():
    assert why(seen("clean-mlp_in_memory"), "sample-cache") == {"no DataLoader feeds the training"}
    (said,) = why(seen("slow-pad_to_max"), "loader-workers")
    assert said == "the loop waits for data in 0.3% of the time: nothing to gain"
    assert why(seen("slow-slow_getitem"), "loader-workers") == {None}
    (said,) = why(seen("slow-slow_getitem"), "compile")
    assert said.startswith("all 880 steps take ")
    assert said.endswith(" s: compiling cannot be earned back")
    cut = {"stopped": "10 s were observed"}
    assert why(seen("slow-slow_getitem", planned_steps=10**6, **cut), "compile") == {None}
    assert why(seen("slow-slow_getitem", planned_steps=None, **cut), "compile") == {None}


def test_a_run_that_came_to_its_end_is_as_long_as_it_was_whatever_was_planned():
    (said,) = why(seen("slow-slow_getitem", stopped=None, planned_steps=10**6), "compile")
    assert said.startswith("all 880 steps take ")
    assert why(seen("clean-hf_trainer"), "compile") != {None}


def test_where_nothing_was_seen_all_that_can_work_here_is_tried():
    reasons = {move.ids[0]: move.why_not for move in moves(CPU, None)}
    assert reasons["sample-cache"] is None
    assert "TF32" in reasons["tf32"]
    assert reasons["dynamic-padding"] is None
    assert "with --allow order" in reasons["length-bucketing"]
    assert "with --allow training" in reasons["token-budget"]
    allowed = {move.ids[0]: move.why_not for move in moves(CPU, None, most=Numerics.EQUIVALENT)}
    assert allowed["length-bucketing"] is None
    exact = {move.ids[0]: move.why_not for move in moves(CPU, None, most=Numerics.BITWISE)}
    assert exact["fused-adamw"] == "it rounds otherwise: without --exact it is tried"
    assert exact["gc-freeze"] is None


def test_rows_of_like_length_are_tried_by_lengths_that_are_read_beforehand_and_with_leave():
    found = seen("slow-pad_to_max")
    for id in ("length-bucketing", "token-budget"):
        (move,) = (m for m in moves(CPU, found, most=Numerics.TRAINING) if m.ids == (id,))
        assert (move.name, move.why_not) == (f"{id}(lengths=read)", None)
        assert "--allow" in str(why(found, id))


def test_batches_are_sent_ahead_where_copying_them_takes_time():
    found = seen("slow-pad_to_max")
    (said,) = why(found, "device-prefetch")
    assert "on CUDA only" in said
    models = tuple(replace(model, device="cuda:0") for model in found.case.models)
    on_gpu = replace(found.case, hardware=GPU, models=models)
    assert on_gpu.on_gpu

    def reason(case) -> set[str | None]:
        tried = moves(GPU, DoctorFacts(case=case, diagnosis=found.diagnosis))
        return {move.why_not for move in tried if move.ids == ("device-prefetch",)}

    assert reason(on_gpu) == {"copies to the GPU take 0.0% of the time: nothing to gain"}
    assert reason(replace(on_gpu, wall={**on_gpu.wall, "host to device": 9.0})) == {None}


def test_what_only_an_edit_mends_has_its_places_and_what_to_do():
    (edit,) = edits(seen("slow-pad_to_max"), BASE)
    assert edit.rule == "D23 pad_to_max"
    assert SourceLocation(file=edit.places[0].file, line=40) == edit.places[0]
    assert edit.remedy.startswith("pad in collate_fn")


def test_what_a_technique_of_the_plan_mends_needs_no_edit():
    found = seen("slow-slow_getitem")
    assert "D13 tokenize_hot" in [edit.rule for edit in edits(found, BASE)]
    ids = {r.technique for f in found.diagnosis.findings for r in f.remedies if r.technique}
    plan = BASE
    for id in ids:
        plan = plan.plus(id)
    assert len(edits(found, plan)) < len(edits(found, BASE))


def script(**more) -> Script:
    return Script(command=("train.py",), cwd=Path.cwd(), detect=lambda: CPU, **more)


def test_two_trials_must_fit_into_the_memory_that_is_free():
    free = psutil.virtual_memory().available
    assert script().room(Trial(plan=BASE, peak_bytes=free // 1000)) is None
    assert script().room(Trial(plan=BASE)) is None, "unknown"
    said = script().room(Trial(plan=BASE, peak_bytes=free))
    assert said.startswith("one takes ")


def test_on_a_gpu_it_is_the_gpus_memory_that_counts():
    on_gpu = replace(script(), detect=lambda: GPU)
    assert on_gpu.room(Trial(plan=BASE, peak_bytes=3 << 30, peak_of="gpu")) is None
    assert on_gpu.room(Trial(plan=BASE, peak_bytes=5 << 30, peak_of="gpu")) == (
        "one takes 5.5 GiB, and two may take 8 GiB"
    )


def test_a_trial_runs_in_the_scripts_folder_and_sends_no_tracker_anything(tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "said = os.getcwd(), sys.argv, os.environ['WANDB_MODE'], os.environ['PYTHONHASHSEED']\n"
        "raise RuntimeError(repr(said))\n"
    )
    target = Script(command=("train.py", "--size", "2"), cwd=tmp_path, detect=lambda: CPU)
    entry = target.entry(BASE, epochs=2, needs=("gc-freeze",))
    assert (entry.plan, entry.epochs, entry.needs) == (BASE, 2, ("gc-freeze",))
    with entry.start() as live, pytest.raises(TrialEnded) as ended:
        live.first(seconds=60)
    assert ended.value.outcome == "failed"
    for part in (str(tmp_path), "['train.py', '--size', '2']", "offline", "'0'"):
        assert part in ended.value.reason


def test_memory_of_a_trial_is_limited(tmp_path):
    (tmp_path / "train.py").write_text("import time\nkept = b'x' * (600 << 20)\ntime.sleep(60)\n")
    target = Script(command=("train.py",), cwd=tmp_path, detect=lambda: CPU, memory=300 << 20)
    with target.entry(BASE, epochs=0, needs=()).start() as live, pytest.raises(TrialEnded) as ended:
        live.first(seconds=60)
    assert ended.value.outcome == "over memory"


def test_a_script_that_the_doctor_cannot_see_is_said_to_be_so(tmp_path):
    target = Script(command=("nowhere.py",), cwd=tmp_path, detect=lambda: CPU)
    said = target.look(tmp_path / "doctor", seconds=1, experiments=1)
    assert said.startswith("the doctor saw nothing: exit code 2: ")
    assert "there is no script 'nowhere.py'" in said


def test_what_saving_and_evaluating_cost_is_said_where_the_doctor_saw_it():
    seen = DoctorFacts(case=CASE, diagnosis=diagnose(CASE))
    saves, evaluations = CASE.saves, CASE.evaluations
    save, evaluation = costs(seen)
    assert (save.what, evaluation.what) == ("a save", "an evaluation")
    assert save.before == pytest.approx(sum(each.seconds for each in saves) / len(saves))
    assert evaluation.note.startswith(f"{len(evaluations)} in {CASE.steps.count} steps, ")
    assert save.after is None


DIES = """\
import os, torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(2000):
    if step == {at} and "HOTLOOP_DOCTOR" in os.environ:
        raise KeyError("column")
    loss = net(torch.ones(2, 4)).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def forked_doctor(monkeypatch, preloaded):
    """Have the doctor run in a fork, whose script knows that it is the doctor that runs it."""

    def run(command, *, environment, **more):
        own = {**environment, "HOTLOOP_DOCTOR": "1"}
        return run_child(preloaded, command, environment=own, **more)

    monkeypatch.setattr(script_target.child, "run", run)


def test_a_look_at_which_the_script_dies_before_a_step_saw_nothing(tmp_path, forked_doctor):
    (tmp_path / "train.py").write_text(DIES.format(at=0))
    target = Script(command=("train.py",), cwd=tmp_path, detect=lambda: CPU)
    said = target.look(tmp_path / "doctor", seconds=10, experiments=10)
    assert said == "the doctor saw no step: exit code 1: KeyError: 'column'"


def test_a_look_at_which_the_script_dies_later_leaves_its_steps_unknown(tmp_path, forked_doctor):
    (tmp_path / "train.py").write_text(DIES.format(at=9))
    target = Script(command=("train.py",), cwd=tmp_path, detect=lambda: CPU)
    found = target.look(tmp_path / "doctor", seconds=10, experiments=10)
    assert isinstance(found, DoctorFacts)
    assert found.case.total_steps is None
    assert found.failed == (
        "the script failed under the doctor after 9 steps: exit code 1: KeyError: 'column'; "
        "all its steps are not known"
    )
    assert {move.why_not for move in moves(CPU, found) if move.ids == ("compile",)} == {None}


def test_a_look_at_a_script_without_steps_says_nothing_of_its_loaders(tmp_path, forked_doctor):
    (tmp_path / "train.py").write_text("import torch\n")
    target = Script(command=("train.py",), cwd=tmp_path, detect=lambda: CPU)
    said = target.look(tmp_path / "doctor", seconds=10, experiments=10)
    assert said == "the doctor saw no step: the script ended before one"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
def test_while_it_forks_the_machine_is_looked_at_once_and_by_a_fork():
    with script().forking() as given:
        assert given.hardware is CPU, "what was given is taken"
    with Script(command=("train.py",), cwd=Path.cwd()).forking() as forking:
        assert forking.hardware is forking.hardware
        assert forking.hardware.device in ("cpu", "cuda")
        assert forking.server is not None
