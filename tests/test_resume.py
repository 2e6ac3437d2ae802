"""A run that is killed, stopped or damaged and resumed ends bit for bit like one that was not."""

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.core.errors import DeviceError
from hotloop.core.storage.files import DISK
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.signals import Signals
from hotloop.engine.wall_time import WallTime
from hotloop.jobs import train as engine
from hotloop.jobs.job import assemble, run_record
from hotloop.jobs.request import fresh_request
from hotloop.jobs.run import execute
from hotloop.machine.clock import clock

ZYGOTE = Path(__file__).with_name("zygote.py")
COMPARED = ("model.safetensors", "optimizer.safetensors", "rng.safetensors")


def facts(path: Path) -> dict[str, object]:
    """What must be equal: losses, norms, rates, sample ids, validations, the last weights."""
    run = load_run(path)
    last = run.checkpoint("last")
    return {
        "steps": [(s.step, s.loss, s.norm, s.learning_rate, s.epoch, s.ids) for s in run.steps],
        "evaluations": [(e["step"], e["loss"], e["best"]) for e in run.evaluations],
        "last": last.step,
        "weights": {name: (last.path / name).read_bytes() for name in COMPARED},
    }


def train(out: Path, settings: list[str], **options) -> engine.RunResult:
    return engine.train(fresh_request("char-lm", settings, **options), out=out)


class Zygote:
    def __init__(self) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = subprocess.Popen([sys.executable, str(ZYGOTE)], env=env, **pipes)
        self.lasts = 1.0  # seconds of a run
        assert self.process.stdout.readline() == "ready\n"

    def start(self, log: Path, *args: str) -> int:
        self.process.stdin.write(json.dumps([str(log), *map(str, args)]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def wait(self) -> int:
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def zygote(tiny, tmp_path_factory):
    one, folder = Zygote(), tmp_path_factory.mktemp("timed")
    for number in range(2):  # the first one finds no caches
        began = time.monotonic()
        one.start(folder / "log", "train", "--out", folder / str(number), "char-lm", *tiny)
        assert one.wait() == 0
        one.lasts = time.monotonic() - began
    yield one
    one.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny) -> Path:
    """The uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert train(out, tiny).exit_code == 0
    return out


AIMS = ("anywhere", "steps", "commit")


def aim(out: Path, where: str, draw: random.Random, pid: int, lasts: float) -> None:
    """Wait for the moment of a kill: any time, among the steps, or while a checkpoint commits.

    `lasts` are the seconds of a run on this machine.
    """
    if where == "anywhere":
        time.sleep(draw.uniform(0.02, 0.9) * lasts)
        return
    events = out / "events-r0.jsonl"
    size = events.stat().st_size if events.exists() else 0

    def reached() -> bool:
        if where == "commit":
            return any((out / "checkpoints").glob(".tmp-step-*"))
        return events.exists() and events.stat().st_size > size + 400

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not reached() and Path(f"/proc/{pid}/stat").exists():
        time.sleep(0.0005)
    time.sleep(draw.uniform(0, 0.02 if where == "commit" else 0.06))


def killed_and_resumed(
    zygote: Zygote, out: Path, tiny: list[str], aims: list[str], draw: random.Random, *added: str
) -> list[str]:
    """Start a run, kill -9 it at each aim and go on to the end; return the aims that hit."""
    log, hits = out.with_suffix(".log"), []
    for where in aims:
        fresh = not RunDir(out).exists
        args = ["--out", out, *added, "char-lm", *tiny] if fresh else ["--resume", out]
        pid = zygote.start(log, "train", *args)
        aim(out, where, draw, pid, zygote.lasts)
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(pid, signal.SIGKILL)
        code = zygote.wait()
        hits += [where] if code == -signal.SIGKILL else []
        assert code in (0, -signal.SIGKILL), log.read_text()
    there = RunDir(out).exists
    args = ["--resume", out] if there else ["--out", out, *added, "char-lm", *tiny]
    zygote.start(log, "train", *args)
    assert zygote.wait() == 0, log.read_text()
    return hits


def check_killed(zygote, whole, tiny, tmp_path, *added: str, runs: int, seed: int) -> list[str]:
    """Kill each run once at every aim, in a random order; return the aims that hit."""
    draw, expected, hits = random.Random(seed), facts(whole), []
    for number in range(runs):
        out = tmp_path / f"killed-{number}"
        hits += killed_and_resumed(zygote, out, tiny, draw.sample(AIMS, len(AIMS)), draw, *added)
        assert facts(out) == expected
        left = [p.name for p in out.rglob(".*")] + [p.name for p in out.glob("lock*")]
        assert not left, "nothing half-written may stay behind"
        shutil.rmtree(out)
    return hits


def test_killed_at_random_times(zygote, whole, tiny, tmp_path):
    hits = check_killed(zygote, whole, tiny, tmp_path, runs=3, seed=1)
    assert len(hits) >= 5, "too few kills hit a living run for this to mean anything"


def test_killed_while_a_thread_writes_the_checkpoints(zygote, whole, tiny, tmp_path):
    added = "--with", "async-checkpoint"
    hits = check_killed(zygote, whole, tiny, tmp_path, *added, runs=2, seed=3)
    assert len(hits) >= 3, "too few kills hit a living run for this to mean anything"


@pytest.mark.slow
def test_killed_while_a_thread_writes_many(zygote, whole, tiny, tmp_path):
    added = "--with", "async-checkpoint"
    hits = check_killed(zygote, whole, tiny, tmp_path, *added, runs=20, seed=4)
    print(f"{len(hits)} of 60 kills hit a living run; 20 of 20 ended bit-identical")
    assert len(hits) >= 30  # saves do not hold these runs up, so more of them end before a kill


@pytest.mark.slow
def test_killed_at_random_times_many(zygote, whole, tiny, tmp_path):
    hits = check_killed(zygote, whole, tiny, tmp_path, runs=20, seed=2)
    counts = ", ".join(f"{where} {hits.count(where)}" for where in AIMS)
    print(f"{len(hits)} of 60 kills hit a living run ({counts}); 20 of 20 ended bit-identical")
    assert len(hits) >= 40
    assert all(hits.count(where) >= 10 for where in AIMS)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_lose_no_step(zygote, whole, tiny, tmp_path, number, code):
    """A real signal in the middle of the run: every completed step is in the checkpoint."""
    out = tmp_path / "run"
    settings = [s for s in tiny if not s.startswith("training.save_every_steps")]
    pid = zygote.start(tmp_path / "log", "train", "--out", out, "char-lm", *settings)
    events = out / "events-r0.jsonl"
    deadline = time.monotonic() + 20
    while not (events.exists() and '"step":10,' in events.read_text()):
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.002)
    os.kill(pid, number)
    assert zygote.wait() == code, (tmp_path / "log").read_text()
    stopped = load_run(out)
    done = stopped.steps[-1].step
    assert done < 40, "the run was faster than the signal"
    assert stopped.checkpoint("last").step == done
    assert "hotloop train --resume" in (tmp_path / "log").read_text()
    zygote.start(tmp_path / "log", "train", "--resume", out)
    assert zygote.wait() == 0
    assert facts(out)["steps"] == facts(whole)["steps"]
    assert facts(out)["weights"] == facts(whole)["weights"]


def cut(source: Path, target: Path, step: int) -> None:
    """Copy a run as it would be had the process died right after saving `step`."""
    shutil.copytree(source, target)
    for folder in (target / "checkpoints").iterdir():
        if int(folder.name.removeprefix("step-")) > step:
            shutil.rmtree(folder)
    RunDir(target).update(status="running")


def check_cuts(tiny: list[str], tmp_path: Path, accumulation: int, cuts: range) -> None:
    changed = ("training.save_every_steps", "training.accumulation", "training.keep")
    settings = [
        *(s for s in tiny if s.partition("=")[0] not in changed),
        "training.save_every_steps=1",
        "training.keep=100",
        f"training.accumulation={accumulation}",
    ]
    whole = tmp_path / "whole"
    train(whole, settings)
    expected = facts(whole)
    assert {s[4] for s in expected["steps"]} == {0, 1, 2}, "the run must cross two epoch ends"
    for step in cuts:
        out = tmp_path / f"cut-{step}"
        cut(whole, out, step)
        assert engine.resume(out).exit_code == 0
        assert facts(out) == expected, f"cut after step {step}"
        shutil.rmtree(out)


@pytest.mark.parametrize("accumulation", [2])  # of 1 and 3 every one: make campaign
def test_cut_points(tiny, tmp_path, accumulation):
    check_cuts(tiny, tmp_path, accumulation, range(1 + accumulation, 40, 9))


@pytest.mark.parametrize("transition", ["absorbing", "uniform"])
@pytest.mark.slow
def test_cut_points_of_a_diffusion_run(tiny, tmp_path, transition):
    """Its noise comes from counters, so there is no random stream to lose."""
    settings = [*tiny, "objective=diffusion", f"diffusion.transition={transition}"]
    check_cuts(settings, tmp_path, 2, range(5, 40, 17))


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_every_cut_point(tiny, tmp_path, accumulation):
    check_cuts(tiny, tmp_path, accumulation, range(1, 41))


def test_flipped_bit_is_named_and_the_one_before_is_used(whole, tmp_path, capsys):
    out = tmp_path / "run"
    cut(whole, out, 35)
    before = [one.step for one in load_run(out).checkpoints][-2]
    path = out / "checkpoints" / "step-00000035" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-9] ^= 0x10
    path.write_bytes(data)
    assert main(["checkpoints", str(out), "--verify"]) == 74
    assert "model.safetensors is damaged" in capsys.readouterr().out
    assert main(["train", "--resume", str(out)]) == 0
    said = capsys.readouterr().err
    assert "step-00000035 is broken (model.safetensors is damaged" in said
    assert f"step {before} is used" in said
    assert facts(out) == facts(whole)


def test_all_broken_is_74_and_deletes_nothing(whole, tmp_path, capsys):
    out = tmp_path / "run"
    cut(whole, out, 35)
    folders = sorted((out / "checkpoints").iterdir())
    for folder in folders:
        (folder / "optimizer.safetensors").unlink()
    assert main(["train", "--resume", str(out)]) == 74
    said = capsys.readouterr().err
    assert all(folder.name in said for folder in folders)
    assert sorted((out / "checkpoints").iterdir()) == folders


def test_without_a_checkpoint_it_starts_at_step_0(whole, tmp_path):
    out = tmp_path / "run"
    cut(whole, out, 0)
    assert engine.resume(out).exit_code == 0
    assert facts(out) == facts(whole)


def test_a_finished_run_is_left_alone(whole, tmp_path, capsys):
    before = {p: p.stat().st_mtime_ns for p in whole.rglob("*")}
    assert main(["train", "--resume", str(whole)]) == 0
    assert "nothing to do" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in whole.rglob("*")} == before


def test_changed_data_are_refused_with_a_diff(whole, tmp_path, tiny, capsys):
    text = Path(tiny[0].partition("=")[2])
    copy = tmp_path / "words.txt"
    copy.write_text(text.read_text())
    out = tmp_path / "run"
    assert train(out, [f"data.path={copy}", *tiny[1:]]).exit_code == 0
    RunDir(out).update(status="running")
    copy.write_text(text.read_text().replace("fox", "cat"))
    assert main(["train", "--resume", str(out)]) == 78
    said = capsys.readouterr().err
    assert "data fingerprint: run has" in said
    assert "same data" in said


def test_other_settings_are_refused_with_a_diff(whole, capsys):
    assert main(["train", "--resume", str(whole), "char-lm", "training.batch_size=12"]) == 78
    assert "training.batch_size: run has 6, asked 12" in capsys.readouterr().err
    assert main(["train", "--resume", str(whole), "char-lm", "training.batch_size=6"]) == 0


def test_time_limits_in_a_row_end_like_one_run(tiny, tmp_path, whole, capsys):
    """Each process makes at least one step, saves, exits 75 and says how to go on."""
    out = tmp_path / "run"
    settings = [*tiny, "training.max_time=0.001"]
    assert main(["train", "char-lm", "--out", str(out), *settings]) == 75
    assert f"hotloop train --resume {out}" in capsys.readouterr().err
    assert RunDir.open(out).read()["status"] == "stopped"
    codes = [main(["train", "--resume", str(out)]) for _ in range(40)]
    assert codes[:39] == [75] * 38 + [0]
    assert codes[39] == 0, "and then it is complete"
    assert facts(out)["steps"] == facts(whole)["steps"]
    assert facts(out)["evaluations"] == facts(whole)["evaluations"]
    assert facts(out)["weights"] == facts(whole)["weights"]


def spoiled(out: Path, settings: list[str], spoil, **of_job) -> engine.RunResult:
    """Train with a loss, signals or an optimizer that a test has in its hands."""
    signals = Signals()
    parts = assemble(fresh_request("char-lm", settings), engine.silent, lambda: None)
    job = dataclasses.replace(parts.job, loss=spoil(parts.job, signals), **of_job)
    parts = dataclasses.replace(parts, job=job)
    run = RunDir(out)
    run.keep(parts.job.kept)
    run.create(run_record(parts), parts.plan)
    options = {
        "wall_time": WallTime(clock),
        "signals": signals,
        "notify": engine.silent,
        "disk": DISK,
    }
    return execute(run, parts, **options)


@pytest.mark.parametrize("when", [1, 4])
def test_a_signal_in_a_validation(tiny, whole, tmp_path, when):
    """The validation is cut off and made up for; the finished run knows its best."""

    def spoil(job, signals):
        calls = 0

        def loss(model, tensors):
            nonlocal calls
            calls += not model.training and len(tensors["inputs"]) == 6
            per_validation = len(job.valid) // 6
            if calls == (when - 1) * per_validation + 1 and signals.received is None:
                signals.receive(signal.SIGTERM)
            return job.loss(model, tensors)

        return loss

    out = tmp_path / "run"
    stopped = spoiled(out, tiny, spoil)
    assert (stopped.exit_code, stopped.step) == (143, 10 * when)
    assert stopped.resume_command is not None
    assert engine.resume(out).exit_code == 0
    assert facts(out) == facts(whole)
    assert load_run(out).record["final"] == load_run(whole).record["final"]
    best = load_run(whole).record["final"]["best_step"]
    assert load_run(out).checkpoint("best").step == best
    assert load_run(whole).checkpoint("best").step == best


def test_a_run_that_ran_out_of_memory_resumes_as_it_was(tiny, tmp_path):
    def spoil(job, signals):
        del signals

        def loss(model, tensors):
            if model.training and len(tensors["inputs"]) > 3:
                raise torch.OutOfMemoryError("planted: out of memory")
            return job.loss(model, tensors)

        return loss

    spoiled(tmp_path / "whole", [*tiny, "seed=5"], spoil)
    expected = facts(tmp_path / "whole")
    cut(tmp_path / "whole", tmp_path / "cut", 28)
    engine.resume(tmp_path / "cut")  # with a loss that never runs out: the halved batch is kept
    assert facts(tmp_path / "cut") == expected


def test_early_stopping_counts_on_after_a_resume(tiny, tmp_path):
    changed = ("training.eval_every_steps", "training.save_every_steps")
    settings = [s for s in tiny if not s.startswith(changed)]
    settings += ["training.eval_every_steps=4", "training.save_every_steps=1", "training.keep=99"]
    settings = [s for s in settings if s != "training.keep=4"]
    settings += ["training.patience=3", "training.min_delta=0.2"]
    train(tmp_path / "whole", settings)
    expected = facts(tmp_path / "whole")
    assert expected["last"] < 40, "it must stop early for this to mean anything"
    for step in range(5, expected["last"], 6):
        cut(tmp_path / "whole", tmp_path / f"cut-{step}", step)
        assert engine.resume(tmp_path / f"cut-{step}").reason == "early stop"
        assert facts(tmp_path / f"cut-{step}") == expected


@pytest.mark.parametrize("error", [RuntimeError, OSError, ValueError, MemoryError, SystemExit])
def test_what_the_model_raises_loses_no_completed_step(error, tiny, tmp_path):
    def spoil(job, signals):
        del signals
        calls = 0

        def loss(model, tensors):
            nonlocal calls
            calls += model.training
            if calls == 24:
                raise error("planted: the user's own fault")
            return job.loss(model, tensors)

        return loss

    with pytest.raises(error, match="planted"):
        spoiled(tmp_path / "run", tiny, spoil)
    assert load_run(tmp_path / "run").checkpoint("last").step == 23
    record = RunDir.open(tmp_path / "run").read()
    assert record["status"] == "failed"
    assert record["reason"] == f"{error.__name__}: planted: the user's own fault"


def test_weights_that_an_update_left_half_done_are_never_saved(tiny, tmp_path):
    """Out of memory in the middle of an update: what lies in memory is no step's weights."""
    steps = 0

    class Breaks(torch.optim.AdamW):
        def step(self, closure=None):
            nonlocal steps
            steps += 1
            if steps == 24:
                with torch.no_grad():
                    self.param_groups[0]["params"][0].add_(1)
                raise torch.OutOfMemoryError("planted: in the update")
            return super().step(closure)

    out = tmp_path / "run"
    with pytest.raises(DeviceError, match="last good checkpoint: step 21"):
        spoiled(out, tiny, lambda job, _: job.loss, optimizer=lambda m: Breaks(m.parameters()))
    assert load_run(out).checkpoint("last").step == 21


def test_nohup_is_respected(zygote, tiny, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    pid = zygote.start(log, "--ignore-hup", "train", "--out", out, "char-lm", *tiny)
    aim(out, "steps", random.Random(0), pid, zygote.lasts)
    os.kill(pid, signal.SIGHUP)
    assert zygote.wait() == 0, log.read_text()
    assert load_run(out).steps[-1].step == 40


def test_a_finished_run_with_a_damaged_end_makes_the_lost_steps_again(whole, tmp_path, capsys):
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    path = out / "checkpoints" / "step-00000040" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["sample", str(out), "--length", "5"]) == 0
    assert "step-00000040 is broken" in capsys.readouterr().err
    assert main(["train", "--resume", str(out)]) == 0
    assert "making it again" in capsys.readouterr().err
    assert facts(out) == facts(whole)


def test_moved_data_are_found_again_when_they_are_the_same(whole, tiny, tmp_path, capsys):
    text = tmp_path / "words.txt"
    text.write_text(Path(tiny[0].partition("=")[2]).read_text())
    out = tmp_path / "run"
    cut(whole, out, 35)
    assert main(["train", "--resume", str(out), f"data.path={text}"]) == 0
    assert facts(out) == facts(whole)
    assert load_run(out).config.data.path == str(text)
    RunDir(out).update(status="stopped")
    text.write_text(text.read_text().replace("fox", "cat"))
    assert main(["train", "--resume", str(out), f"data.path={text}"]) == 78
    assert "the data have changed" in capsys.readouterr().err
