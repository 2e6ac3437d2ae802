"""The engine as a whole: what must not change a weight, and what happens when things go wrong."""

import dataclasses
import errno
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.golden.map_style import Mapped

from hotloop.api import load_run, train
from hotloop.cli.main import main
from hotloop.core.codec import to_json
from hotloop.core.errors import ConfigError, DeviceError, DivergedError, WriteError
from hotloop.core.progress import EpochDone, Evaluated, Note, Progress, ReadyToTrain
from hotloop.core.storage.files import DISK, Disk
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.fused_update import FusedStep
from hotloop.engine.signals import Signals
from hotloop.engine.wall_time import ROWS, WallTime
from hotloop.jobs import train as engine
from hotloop.jobs.job import assemble, run_record
from hotloop.jobs.request import fresh_request
from hotloop.jobs.run import execute
from hotloop.machine.clock import clock


def run(out: Path, settings: list[str], notify=engine.silent, **options) -> engine.RunResult:
    return engine.train(fresh_request("char-lm", settings, **options), out=out, notify=notify)


def weights(path: Path) -> dict[str, bytes]:
    folder = load_run(path).checkpoint("last").path
    return {p.name: p.read_bytes() for p in folder.glob("*.safetensors")}


def but(settings: list[str], *changed: str) -> list[str]:
    keys = {text.partition("=")[0] for text in changed}
    return [s for s in settings if s.partition("=")[0] not in keys] + list(changed)


@pytest.fixture(scope="module")
def plain(tmp_path_factory, tiny) -> Path:
    out = tmp_path_factory.mktemp("plain") / "run"
    run(out, tiny)
    return out


@pytest.mark.parametrize(
    "changed",
    ["training.eval_every_steps=5", "training.eval_every_steps=3", "training.log_every=1"],
)
def test_watching_more_closely_changes_no_weight(plain, tiny, tmp_path, changed):
    run(tmp_path / "run", but(tiny, changed))
    assert weights(tmp_path / "run") == weights(plain)
    losses = [step.loss for step in load_run(tmp_path / "run").steps]
    assert losses == [step.loss for step in load_run(plain).steps]


def test_it_learns(plain):
    losses = [e["loss"] for e in load_run(plain).evaluations]
    assert losses[-1] < losses[0] - 0.1


def test_every_second_has_a_row(tiny, tmp_path):
    long = ["training.max_steps=400" if "max_steps" in text else text for text in tiny]
    began = clock()
    result = engine.train(fresh_request("char-lm", long), out=tmp_path / "run", began=began)
    took = clock() - began
    assert tuple(result.wall) == ROWS
    assert sum(result.wall.values()) == pytest.approx(took, rel=0.02)
    assert all(seconds >= 0 for seconds in result.wall.values())


def test_the_effects_are_told_and_recorded(tiny, tmp_path):
    heard = []
    run(tmp_path / "run", tiny, notify=heard.append)
    prepared = next(message for message in heard if isinstance(message, ReadyToTrain))
    assert prepared.facts["batch"].startswith("6 micro x 1 accumulation x 1 rank = 6 samples (96 ")
    assert prepared.facts["saving"].startswith("after step 1, every 7 steps, every 600 s, and at")
    assert {row.word for row in prepared.effects} <= {"in effect", "not needed here", "refused"}
    record = RunDir.open(tmp_path / "run").read()
    assert record["effects"] == [to_json(row) for row in prepared.effects]
    assert [m.step for m in heard if isinstance(m, Evaluated)] == [10, 20, 30, 40]


def test_progress_is_told_at_the_log_interval(tiny, tmp_path):
    heard = []
    run(tmp_path / "run", tiny, notify=heard.append)
    told = [message for message in heard if isinstance(message, Progress)]
    assert [p.step for p in told if p.step % 5 == 0] == list(range(5, 41, 5))
    losses = {step.step: step.loss for step in load_run(tmp_path / "run").steps}
    assert all(p.loss == losses[p.step] for p in told)
    assert all(p.tokens_per_s == pytest.approx(16 * p.samples_per_s) for p in told)
    assert told[-1].seconds_left == 0
    assert all(p.memory_bytes > 1e7 for p in told)


def test_mfu_is_unknown_until_the_peak_is_measured(tiny, tmp_path):
    for name, known in (("without", False), ("with", True)):
        heard = []
        run(tmp_path / name, tiny, notify=heard.append, measure_peak=known)
        shares = [message.mfu for message in heard if isinstance(message, EpochDone)]
        assert len(shares) == 2
        assert all(0 < share < 1 if known else share is None for share in shares)


def test_early_stopping(tiny, tmp_path):
    settings = but(
        tiny, "training.patience=2", "training.min_delta=100", "training.eval_every_steps=4"
    )
    result = run(tmp_path / "run", settings)
    assert (result.reason, result.exit_code, result.step) == ("early stop", 0, 12)
    assert RunDir.open(tmp_path / "run").read()["status"] == "complete"


def test_epochs_end_the_run_and_validate(tiny, tmp_path):
    drop = ("training.max_steps", "training.eval_every_steps")
    settings = [s for s in tiny if not s.startswith(drop)]
    settings += ["training.epochs=2", "training.eval_every_epochs=1"]
    result = run(tmp_path / "run", settings)
    trained = load_run(tmp_path / "run")
    per_epoch = result.step // 2
    assert [e["step"] for e in trained.evaluations] == [per_epoch, 2 * per_epoch]
    assert sum(s.samples for s in trained.steps if s.epoch == 0) == 110, "no window was dropped"


def drive(out: Path, settings: list[str], *, loss=None, disk: Disk = DISK, notify=engine.silent):
    """Run with a loss or a disk that fails on purpose."""
    parts = assemble(fresh_request("char-lm", settings), notify, lambda: None)
    if loss is not None:
        parts = dataclasses.replace(parts, job=dataclasses.replace(parts.job, loss=loss(parts.job)))
    folder = RunDir(out)
    folder.keep(parts.job.kept)
    folder.create(run_record(parts), parts.plan)
    return execute(
        folder, parts, wall_time=WallTime(clock), signals=Signals(), notify=notify, disk=disk
    )


def failing(job, *, when, how):
    """Wrap a job's loss: at training call number `when`, `how` spoils it."""
    calls = 0

    def loss(model, tensors):
        nonlocal calls
        value = job.loss(model, tensors)
        if not model.training:
            return value
        calls += 1
        return how(value, tensors) if calls == when else value

    return loss


def nan_loss(value, tensors):
    return value * float("nan")


def nan_gradient(value, tensors):
    value.register_hook(lambda gradient: gradient * float("nan"))
    return value


@pytest.mark.parametrize("how", [nan_loss, nan_gradient])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_not_finite_stops_before_the_update(tiny, tmp_path, how, accumulation):
    settings = but(tiny, f"training.accumulation={accumulation}")
    out, at = tmp_path / "run", 12
    with pytest.raises(DivergedError) as caught:
        drive(out, settings, loss=lambda job: failing(job, when=at * accumulation, how=how))
    assert caught.value.exit_code == 3
    for said in (f"optimizer step {at}", "samples 66..71 of epoch 0", "last good checkpoint: step"):
        assert said in str(caught.value)
    stopped = load_run(out)
    assert stopped.record["status"] == "diverged"
    assert stopped.steps[-1].step == at - 1
    assert stopped.checkpoint("last").step == at - 1, "no completed step is lost"
    assert all(bool(p.isfinite().all()) for p in stopped.model("last").parameters())


def test_out_of_memory_halves_the_micro_batch_and_goes_on(tiny, tmp_path, plain):
    heard = []

    def loss(job):
        def limited(model, tensors):
            if model.training and len(tensors["inputs"]) > 2:
                raise torch.OutOfMemoryError("planted: out of memory")
            return job.loss(model, tensors)

        return limited

    settings = but(tiny, "model.dropout=0")
    assert drive(tmp_path / "run", settings, loss=loss, notify=heard.append).exit_code == 0
    notes = [m.text for m in heard if isinstance(m, Note) and "out of memory" in m.text]
    assert [("3 micro x 2", "2 micro x 3")[i] in note for i, note in enumerate(notes)] == [True] * 2
    run(tmp_path / "whole", settings)
    small, whole = load_run(tmp_path / "run").steps, load_run(tmp_path / "whole").steps
    assert [s.ids for s in small] == [s.ids for s in whole], "the global batch never changes"
    assert [s.loss for s in small] == pytest.approx([s.loss for s in whole], rel=1e-4)
    state = json.loads(
        (load_run(tmp_path / "run").checkpoint("last").path / "state.json").read_text()
    )
    assert (state["micro_batch"], state["accumulation"]) == (2, 3)


def test_out_of_memory_in_the_first_update_repeats_the_window(tiny, tmp_path, monkeypatch):
    """The state of the optimizer is allocated there; no weight has changed yet."""
    public, tried = FusedStep._public, []

    def limited(self, divide, found_inf):
        tried.append(len(self._optimizer.state))
        if len(tried) < 3:
            self._optimizer.state[self._params[0]]["exp_avg"] = torch.zeros(1)
            raise torch.AcceleratorError("CUDA error: out of memory")
        public(self, divide, found_inf)

    monkeypatch.setattr(FusedStep, "_public", limited)
    heard, settings = [], but(tiny, "model.dropout=0")
    assert drive(tmp_path / "run", settings, notify=heard.append).exit_code == 0
    notes = [m.text for m in heard if isinstance(m, Note) and "out of memory at step 1" in m.text]
    assert [("3 micro x 2", "2 micro x 3")[i] in note for i, note in enumerate(notes)] == [True] * 2
    assert tried == [tried[0]] * 3, "nothing is left of a state that was begun"
    monkeypatch.undo()
    run(tmp_path / "whole", settings)
    small, whole = load_run(tmp_path / "run").steps, load_run(tmp_path / "whole").steps
    assert [s.ids for s in small] == [s.ids for s in whole]
    assert [s.loss for s in small] == pytest.approx([s.loss for s in whole], rel=1e-4)


def test_out_of_memory_in_a_later_update_ends_the_run(tiny, tmp_path, monkeypatch):
    """Some weights may have changed: the step cannot be repeated."""

    def out_of_memory(*_, **__):
        raise torch.OutOfMemoryError("planted: out of memory")

    monkeypatch.setattr(torch, "_fused_adamw_", out_of_memory)  # the first one is torch's own
    with pytest.raises(DeviceError, match="out of memory"):
        drive(tmp_path / "run", tiny)


def test_out_of_memory_in_a_validation_halves_the_micro_batch_and_repeats_it(tiny, tmp_path):
    heard = []

    def loss(job):
        def limited(model, tensors):
            if not model.training and len(tensors["inputs"]) > 3:
                raise torch.OutOfMemoryError("planted: out of memory")
            return job.loss(model, tensors)

        return limited

    settings = but(tiny, "model.dropout=0")
    assert drive(tmp_path / "run", settings, loss=loss, notify=heard.append).exit_code == 0
    assert [m.text for m in heard if isinstance(m, Note) and "going on with 3 micro x 2" in m.text]
    run(tmp_path / "whole", settings)
    found = [[m["loss"] for m in load_run(tmp_path / n).evaluations] for n in ("run", "whole")]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def full_disk(*, after: int) -> Disk:
    """A disk on which every write fails from the `after`-th fsync on."""
    synced = 0

    def fsync(handle: int) -> None:
        nonlocal synced
        synced += 1
        if synced > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        DISK.fsync(handle)

    return Disk(fsync=fsync)


def test_a_failed_save_warns_and_training_goes_on(tiny, tmp_path):
    heard = []
    with pytest.raises(WriteError) as caught:  # only the last save must succeed
        drive(tmp_path / "run", tiny, disk=full_disk(after=8), notify=heard.append)
    assert caught.value.exit_code == 73
    warned = [m.text for m in heard if isinstance(m, Note) and m.warning]
    assert warned
    assert "No space left" in warned[0]
    assert "last good checkpoint: step 1" in warned[0]
    stopped = load_run(tmp_path / "run")
    assert stopped.steps[-1].step == 40, "training went on to the end"
    assert stopped.checkpoint("last").step == 1


def test_background_checkpoints_hold_the_state_of_their_own_step(tiny, tmp_path, plain):
    out = tmp_path / "run"
    run(out, tiny, added=["async-checkpoint"])
    mine, theirs = ({c.step: c.path for c in load_run(at).checkpoints} for at in (out, plain))
    both = mine.keys() & theirs.keys()
    assert {28, 35, 40} <= both  # a new best may be saved in one of them: that depends on time
    for step in both:
        for name in ("model.safetensors", "optimizer.safetensors", "rng.safetensors"):
            assert (mine[step] / name).read_bytes() == (theirs[step] / name).read_bytes(), step
    saves = [e for e in RunDir(out).events() if e["kind"] == "save"]
    assert {1, 7, 14, 21, 28, 35, 40} <= {e["step"] for e in saves}
    assert all(e["wall"] >= 0 and e["durable"] > 0 and e["bytes"] > 0 for e in saves)


def test_a_background_save_that_fails_is_told_at_most_a_save_later(tiny, tmp_path):
    heard: list[object] = []
    parts = assemble(fresh_request("char-lm", tiny, added=["async-checkpoint"]), heard.append, int)
    folder = RunDir(tmp_path / "run")
    folder.create(run_record(parts), parts.plan)
    options = {"wall_time": WallTime(clock), "signals": Signals(), "notify": heard.append}
    with pytest.raises(WriteError):  # the last save must succeed
        execute(folder, parts, **options, disk=full_disk(after=8))
    warned = [m.text for m in heard if isinstance(m, Note) and m.warning]
    assert "No space left" in warned[0]
    assert "last good checkpoint: step 1" in warned[0]
    failed = [e["step"] for e in folder.events() if "save failed" in str(e.get("text"))]
    assert failed[0] == 7
    assert {14, 21, 28, 35} <= set(failed)
    assert load_run(folder.path).steps[-1].step == 40, "training went on to the end"


def test_a_log_that_cannot_be_written_waits_and_is_written_later(tiny, tmp_path, plain):
    """The disk refuses the event file for a while: training goes on, no line is lost."""
    heard, writes = [], 0

    def write(stream, data):
        nonlocal writes
        if stream.name.endswith(".jsonl"):
            writes += 1
            if 3 <= writes <= 6:
                stream.write(data[:17])  # a part of it arrives
                raise OSError(errno.ENOSPC, "No space left on device")
        return stream.write(data)

    drive(tmp_path / "run", tiny, disk=Disk(write=write), notify=heard.append)
    warned = [m.text for m in heard if isinstance(m, Note) and m.warning]
    assert len(warned) == 1
    assert "the log waits in memory" in warned[0]
    steps, expected = load_run(tmp_path / "run").steps, load_run(plain).steps
    assert [(s.step, s.loss, s.ids) for s in steps] == [(s.step, s.loss, s.ids) for s in expected]


def test_too_little_space_is_said_before_step_1(tiny, tmp_path, capsys):
    settings = but(tiny, "training.keep=2000000000")
    assert main(["train", "char-lm", "--out", str(tmp_path / "run"), *settings]) == 73
    assert "GiB free, but" in capsys.readouterr().err


def test_init_from_loads_what_fits_and_names_the_rest(tiny, tmp_path, plain):
    heard = []
    settings = but(tiny, f"init_from={plain}", "training.max_steps=10", "model.bias=true")
    run(tmp_path / "run", settings, notify=heard.append)
    notes = [m.text for m in heard if isinstance(m, Note)]
    assert any("norm.bias: not in the file" in note for note in notes)
    assert load_run(tmp_path / "run").steps[0].loss < load_run(plain).steps[0].loss - 0.5


def test_a_run_refused_before_its_first_event_leaves_the_folder_free(tiny, tmp_path, plain):
    settings = but(tiny, f"init_from={plain}", "model.width=24")
    with pytest.raises(ConfigError, match="none of its"):
        run(tmp_path / "run", settings)
    assert run(tmp_path / "run", tiny).exit_code == 0
    assert weights(tmp_path / "run") == weights(plain)


def test_init_from_a_run_on_other_text_says_so(tiny, tmp_path, plain, corpus):
    other = tmp_path / "other.txt"
    other.write_text(corpus.read_text().upper())
    heard = []
    settings = but(tiny, f"init_from={plain}", "training.max_steps=6", f"data.path={other}")
    run(tmp_path / "run", settings, notify=heard.append)
    warned = [m.text for m in heard if isinstance(m, Note) and m.warning]
    assert any("its vocabulary is another" in text for text in warned)


def test_dataset_all_skips_finished_sets_and_resumes_interrupted_ones(tiny, tmp_path, corpus):
    other = tmp_path / "other.txt"
    other.write_text(corpus.read_text().upper())
    sets = [s for s in tiny if not s.startswith("data.path")]
    sets += [f"data.sets={{a: {corpus}, b: {other}}}", "dataset=all"]
    request = fresh_request("char-lm", sets)
    assert [n for n, _ in engine.train_series(request, out=tmp_path / "runs")] == ["a", "b"]
    before = (tmp_path / "runs/a/events-r0.jsonl").read_bytes()
    RunDir(tmp_path / "runs/b").update(status="stopped")
    heard = []
    list(engine.train_series(request, out=tmp_path / "runs", notify=heard.append))
    assert (tmp_path / "runs/a/events-r0.jsonl").read_bytes() == before
    assert RunDir(tmp_path / "runs/b").read()["status"] == "complete"
    assert any("nothing to do" in m.text for m in heard if isinstance(m, Note))


def test_a_finished_set_whose_text_has_changed_is_refused(tiny, tmp_path, corpus):
    text = tmp_path / "text.txt"
    text.write_text(corpus.read_text())
    sets = [s for s in tiny if not s.startswith("data.path")]
    request = fresh_request("char-lm", [*sets, f"data.sets={{a: {text}}}", "dataset=all"])
    list(engine.train_series(request, out=tmp_path / "runs"))
    text.write_text(corpus.read_text().replace("fox", "cat"))
    with pytest.raises(ConfigError, match="the data have changed"):
        list(engine.train_series(request, out=tmp_path / "runs"))


def test_as_a_library(corpus, tmp_path, tiny):
    keys = {s.partition("=")[0].replace(".", "__"): s.partition("=")[2] for s in tiny}
    keys["training__max_steps"] = 12
    result = train("char-lm", out=tmp_path / "run", **keys)
    trained = load_run(result.path)
    assert trained.config.training.max_steps == 12
    assert result.best_loss == min(e["loss"] for e in trained.evaluations)
    assert trained.model()(torch.zeros(1, 4, dtype=torch.long)).shape == (
        1,
        4,
        len(trained.vocabulary()),
    )


def test_a_plan_file_gives_the_same_run(plain, tiny, tmp_path):
    out = tmp_path / "run"
    run(out, tiny, plan_file=plain / "plan.json")
    assert weights(out) == weights(plain)
    assert (out / "plan.json").read_bytes() == (plain / "plan.json").read_bytes()


def test_with_and_without_change_the_plan_and_are_shown(tiny, tmp_path):
    out = tmp_path / "run"
    run(out, tiny, added=["sdpa:backend=math"], removed=["gc-freeze"])
    rows = {row["technique"]: row for row in RunDir.open(out).read()["effects"]}
    assert rows["sdpa(backend=math)"]["origin"] == "--with"
    assert rows["sdpa(backend=math)"]["word"] == "in effect"
    assert not any(name.startswith("gc-freeze") for name in rows)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("training.memory_fraction=0.5", "caps CUDA's allocator"),
        ("data.num_workers=4", "no loader process"),
        ("training.precision=fp16", "fp16 on a CPU"),
    ],
)
def test_what_is_typed_and_has_no_effect_is_an_error(tiny, tmp_path, capsys, typed, said):
    out = tmp_path / "run"
    argv = ["train", "char-lm", "--out", str(out), *but(tiny, typed)]
    assert main(argv) == 78
    assert said in capsys.readouterr().err
    assert not out.exists()
    config = tmp_path / "settings.yaml"
    key, _, value = typed.partition("=")
    section, _, name = key.partition(".")
    config.write_text(f"{section}:\n  {name}: {value}\n")
    settings = [s for s in tiny if not s.startswith(key)]
    assert (
        main(["train", "-q", "char-lm", "--config", str(config), "--out", str(out), *settings]) == 0
    )


def test_a_long_validation_is_said_with_its_figure(tiny, tmp_path):
    heard = []
    run(tmp_path / "run", but(tiny, "training.eval_every_steps=1"), notify=heard.append)
    (warned,) = [m.text for m in heard if isinstance(m, Note) and m.warning]
    assert warned.startswith("each validation will cost about 67% of the training")
    assert "training.eval_batches=1 makes that 20%" in warned


class Sentences:
    """The corpus as map-style data, with an augmentation that draws from torch's generator."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = torch.from_numpy(ids.astype(np.int64))

    def __len__(self) -> int:
        return (len(self.ids) - 1) // 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        first = max(0, index * 16 - int(torch.randint(3, ())))
        return {"inputs": self.ids[first : first + 16], "targets": self.ids[first + 1 :][:16]}


def map_style(out: Path, settings: list[str], *added: str) -> engine.RunResult:
    parts = assemble(fresh_request("char-lm", settings, added=added), engine.silent, int)
    samples = Mapped(
        Sentences(np.asarray(parts.data.train)),
        fingerprint="sentences",
        seed=1,
        shuffle=True,
        targets=lambda tensors: tensors["targets"].numel(),
    )
    job = dataclasses.replace(parts.job, train=samples)
    parts = dataclasses.replace(
        parts, job=job, feed=dataclasses.replace(parts.feed, samples=samples)
    )
    folder = RunDir(out)
    folder.create(run_record(parts), parts.plan)
    options = {"signals": Signals(), "notify": engine.silent, "disk": DISK}
    return execute(folder, parts, wall_time=WallTime(clock), **options)


def test_loader_processes_change_no_weight_and_are_in_effect(tiny, tmp_path):
    map_style(tmp_path / "alone", tiny)
    map_style(tmp_path / "two", tiny, "loader-workers:count=2")
    assert weights(tmp_path / "two") == weights(tmp_path / "alone")
    (row,) = [
        row
        for row in load_run(tmp_path / "two").record["effects"]
        if row["technique"].startswith("loader-workers")
    ]
    assert row["word"] == "in effect"
    assert row["how"] == "2 loader processes, 2 windows ahead each"


def test_loader_processes_are_refused_where_the_data_lie_in_memory(tiny, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "--out", str(out), "--with", "loader-workers", "char-lm", *tiny]) == 78
    assert "the data lie in memory" in capsys.readouterr().err
