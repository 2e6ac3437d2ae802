"""The rehearsal makes the run's own first steps, and leaves nothing behind."""

import gc
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hotloop.api import load_run
from hotloop.core.errors import DeviceError, PlanError, UsageError
from hotloop.core.progress import Working
from hotloop.diagnosis.recipe import RecipeCheck, rehearse, rehearsed
from hotloop.engine.signals import Dropped, Signals
from hotloop.engine.wall_time import WallTime
from hotloop.jobs import train
from hotloop.jobs.first_steps import FirstSteps, StepBudget
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.jobs.run import set_up
from hotloop.jobs.start_point import start_weights
from hotloop.machine.clock import clock

FOUR = StepBudget(steps=4)


def but(settings: list[str], *changed: str) -> list[str]:
    keys = {text.partition("=")[0] for text in changed}
    return [s for s in settings if s.partition("=")[0] not in keys] + list(changed)


def rules(found: RecipeCheck) -> set[str]:
    return {finding.rule.split()[0] for finding in found.diagnosis.findings}


@pytest.fixture
def of(tmp_path):
    """Rehearse settings whose run would go to tmp_path/run."""

    def run(settings, *, budget=FOUR, notify=train.silent, **asked):
        request = fresh_request("char-lm", settings, **asked)
        signals = Signals()
        return rehearse(
            request, notify=notify, signals=signals, budget=budget, out=tmp_path / "run"
        )

    return run


def with_loss(settings: list[str], wrap, folder: Path) -> RecipeCheck:
    """Rehearse a job whose loss is `wrap` of its own."""
    parts = assemble(fresh_request("char-lm", settings), train.silent, lambda: None)
    parts = replace(parts, job=replace(parts.job, loss=wrap(parts.job.loss)))
    return rehearsed(
        parts,
        budget=FOUR,
        folder=folder / "run",
        wall_time=WallTime(clock),
        signals=Signals(),
        notify=train.silent,
    )


def test_its_steps_are_those_that_the_run_makes(of, tiny, tmp_path):
    found = of(tiny, budget=StepBudget(steps=9))
    assert found.timing.made == 12, "three for the warm-up"
    train.train(fresh_request("char-lm", tiny), out=tmp_path / "real")
    losses = {step.step: step.loss for step in load_run(tmp_path / "real").steps}
    assert found.timing.losses == (losses[1], losses[12])


def test_nothing_is_left_behind(of, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    threads, kept = torch.get_num_threads(), gc.get_freeze_count()
    found = of(tiny)
    assert found.timing.save > 0, "a checkpoint was written and timed"
    assert list(tmp_path.iterdir()) == []
    assert (torch.get_num_threads(), gc.get_freeze_count()) == (threads, kept)


@pytest.mark.parametrize("stage", ["reading the text", "timing steps"])
def test_a_signal_stops_it_and_nothing_is_left_behind(of, tiny, tmp_path, stage):
    text = tmp_path / "other.txt"
    text.write_text("the quick brown fox\n" * 100)

    def notify(message):
        if isinstance(message, Working) and message.what == stage:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Dropped):
        of(but(tiny, f"data.path={text}"), notify=notify)
    assert signal.getsignal(signal.SIGTERM) is before
    assert list(tmp_path.iterdir()) == [text]


def test_the_number_of_timed_steps_can_be_asked_for(of, tiny):
    found = of(tiny, budget=StepBudget(steps=5))
    assert found.diagnosis.steps == 8
    assert found.diagnosis.step_time == found.timing.step
    assert 1 <= found.timing.step.n <= 5


def test_the_estimate_rests_on_what_was_measured(of, tiny):
    found = of(tiny)
    timing, rows = found.timing, found.estimate.rows
    assert rows["data wait"] + rows["step"] == pytest.approx(40 * timing.step.median)
    assert rows["evaluate"] == pytest.approx(4 * 12 / 6 * timing.validation.median)
    assert rows["start"] == timing.start > 0
    assert timing.data_wait < timing.step.median
    wall = found.diagnosis.wall
    assert set(wall) == {"start", "compile", "data wait", "step", "evaluate", "save", "other"}
    assert found.diagnosis.own_time >= 0


def test_it_is_written_as_findings_json(of, tiny):
    written = json.loads(json.dumps(of(tiny).to_json()))
    assert written["schema"] == 1
    assert written["estimate"]["steps"] == 40
    assert written["step_time"]["unit"] == "s"
    assert written["facts"]["first sample"]
    assert {entry["rule"].split()[0] for entry in written["findings"]} >= {"R2", "R11"}
    assert len(written["not_checked"]) > 3


def test_a_run_that_diverges_at_once_is_found_out(of, tiny):
    wild = ("training.learning_rate=1e20", "training.warmup_steps=0", "training.gradient_clip=0")
    found = of(but(tiny, *wild))
    assert found.timing is None
    assert found.estimate is None
    assert found.diagnosis.findings[0].rule == "S12 not_finite"
    assert "optimizer step" in found.diagnosis.findings[0].claim
    assert json.dumps(found.to_json())


def test_an_out_of_memory_is_met_as_the_run_would_meet_it(tiny, tmp_path):
    def limited(loss):
        def limit(model, tensors):
            if model.training and len(tensors["inputs"]) > 2:
                raise torch.OutOfMemoryError("planted")
            return loss(model, tensors)

        return limit

    found = with_loss(tiny, limited, tmp_path)
    assert found.timing.step.n >= 1
    memory = next(f for f in found.diagnosis.findings if f.rule.startswith("G16"))
    assert "with 2 it goes on, as hotloop train would" in memory.claim


def test_memory_for_not_even_one_sample_is_an_error(tiny, tmp_path):
    def broken(loss):
        def fail(model, tensors):
            raise torch.OutOfMemoryError("planted")

        return fail

    with pytest.raises(DeviceError, match="a micro batch of 1"):
        with_loss(tiny, broken, tmp_path)


def test_errors_of_the_model_are_its_own(tiny, tmp_path):
    def broken(loss):
        def fail(model, tensors):
            raise RuntimeError("planted")

        return fail

    with pytest.raises(RuntimeError, match="planted"):
        with_loss(tiny, broken, tmp_path)


def test_saves_beside_the_training_are_timed_by_what_the_loop_waits(of, tiny, tmp_path):
    found = of(tiny, added=["async-checkpoint"])
    assert 0 < found.timing.save < 1
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_assembled_is_refused_as_by_train(of, tiny, tmp_path):
    with pytest.raises(PlanError, match="tf32 has no effect here"):
        of(tiny, added=["tf32"])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="not an empty folder"):
        of(tiny)


def test_one_set_at_a_time(of, tiny):
    settings = but(tiny, "dataset=all", f"data.sets={{a: {tiny[0].partition('=')[2]}}}")[1:]
    with pytest.raises(UsageError, match="name one"):
        of(settings)


def test_a_folder_that_cannot_be_written_is_found(tiny, tmp_path):
    parts = assemble(fresh_request("char-lm", tiny), train.silent, lambda: None)
    wall_time, signals = WallTime(clock), Signals()
    session, _, at = set_up(
        parts, lambda s: start_weights(parts, s, train.silent), wall_time, signals, train.silent
    )
    tried = FirstSteps(
        parts, session, at, wall_time=wall_time, signals=signals, notify=train.silent
    )
    (tmp_path / "file").touch()
    timing = tried.time(StepBudget(steps=1), tmp_path / "file")
    tried.close()
    assert timing.save is None
    assert "file" in tried.unwritable


def test_without_a_number_it_stops_when_the_median_is_stable(of, tiny):
    heard = []
    found = of(tiny, budget=StepBudget(least=0.5, most=2.0), notify=heard.append)
    assert found.timing.step.n >= 20
    shares = [m.share for m in heard if isinstance(m, Working) and m.what == "timing steps"]
    assert shares == sorted(shares)
    assert max(shares) <= 1
