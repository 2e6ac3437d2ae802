"""New bests are saved with a cooldown: seldom, and never lost at an end."""

import dataclasses
import os
import time

import pytest

from hotloop.core.storage.files import DISK, Disk
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import best_of, listing
from hotloop.engine.signals import Signals
from hotloop.engine.wall_time import WallTime
from hotloop.jobs.job import assemble, run_record
from hotloop.jobs.request import fresh_request
from hotloop.jobs.run import execute
from hotloop.jobs.train import silent
from hotloop.machine.clock import clock


def slow(seconds: float) -> Disk:
    """Return a disk that takes so long for each file."""

    def fsync(handle: int) -> None:
        time.sleep(seconds)
        os.fsync(handle)

    return Disk(fsync=fsync)


def settings(tiny, *more):
    """Validate at each step, and save by steps only at the first."""
    own = ["training.eval_every_steps=1", "training.learning_rate=0.002", "model.dropout=0"]
    mine = {text.partition("=")[0]: text for text in (*own, *more)}
    left_out = {*mine, "training.save_every_steps"}
    return [*(t for t in tiny if t.partition("=")[0] not in left_out), *mine.values()]


def run(out, keys, *, disk=DISK, added=(), spoil=None):
    parts = assemble(fresh_request("char-lm", keys, added=added), silent, lambda: None)
    if spoil is not None:
        job = parts.job
        parts = dataclasses.replace(parts, job=dataclasses.replace(job, loss=spoil(job.loss)))
    folder = RunDir(out)
    folder.keep(parts.job.kept)
    folder.create(run_record(parts), parts.plan)
    options = {"wall_time": WallTime(clock), "signals": Signals(), "notify": silent, "disk": disk}
    return execute(folder, parts, **options)


def saved(out):
    return [event["step"] for event in RunDir.open(out).events() if event["kind"] == "save"]


def bests(out):
    return [event["step"] for event in RunDir.open(out).events() if event.get("best")]


@pytest.mark.parametrize("added", [(), ("async-checkpoint",)], ids=["in the loop", "beside"])
def test_a_run_that_improves_each_time_does_not_save_each_time(tiny, tmp_path, added):
    result = run(tmp_path / "run", settings(tiny), disk=slow(0.05), added=added)
    assert len(bests(tmp_path / "run")) > 20
    steps = saved(tmp_path / "run")
    assert steps[0] == 1
    assert len(steps) <= 4, "a save takes 0.25 s, so bests are 5 s apart"
    there = listing(tmp_path / "run" / "checkpoints", verify=True)
    assert all(one.sound for one in there)
    best = best_of(there, result.best_step)
    assert best is not None
    assert best.validation_loss == result.best_loss


@pytest.mark.parametrize("patience", [(), ("training.patience=50",)])
def test_without_a_cooldown_each_best_is_saved(tiny, tmp_path, patience):
    keys = settings(tiny, "training.best_cooldown=0", "training.max_steps=12", *patience)
    run(tmp_path / "run", keys, disk=slow(0.02))
    assert set(bests(tmp_path / "run")) <= set(saved(tmp_path / "run"))
    assert len(bests(tmp_path / "run")) > 8


def test_one_that_waits_is_written_when_its_time_has_come(tiny, tmp_path):
    keys = settings(tiny, "training.best_cooldown=0.1s", "training.max_steps=30")

    def late(loss):
        def slower(model, tensors):
            time.sleep(0.01 * model.training)
            return loss(model, tensors)

        return slower

    run(tmp_path / "run", keys, spoil=late)
    between = [step for step in saved(tmp_path / "run") if 1 < step < 30]
    assert 2 <= len(between) < 25


def test_one_that_waits_is_written_before_an_error_ends_the_run(tiny, tmp_path):
    def breaking(loss):
        calls = 0

        def broken(model, tensors):
            nonlocal calls
            calls += model.training
            if calls == 20:
                raise RuntimeError("planted")
            return loss(model, tensors)

        return broken

    keys = settings(tiny, "training.best_cooldown=1h", "training.eval_every_steps=3")
    with pytest.raises(RuntimeError, match="planted"):
        run(tmp_path / "run", keys, spoil=breaking)
    best = bests(tmp_path / "run")[-1]
    assert best == 18, "the last step, 19, is no validation's"
    assert saved(tmp_path / "run") == [1, 18, 19]


def test_a_checkpoint_is_never_older_than_the_best_it_names(tiny, tmp_path):
    keys = settings(
        tiny,
        "training.best_cooldown=1h",
        "training.eval_every_steps=3",
        "training.save_every_steps=10",
    )
    run(tmp_path / "run", keys)
    seen = saved(tmp_path / "run")
    assert seen == sorted(seen)
    assert {1, 9, 10, 18, 20} <= set(seen), "9 and 18 were held, and written before 10 and 20"
