"""Builds the case of a planned run from the facts that are known before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.case.case import TRAIN, Case
from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.planned_run import MemoryForecast, PlannedRun, RunSettings, TimeForecast
from hotloop.core.case.steps_and_loaders import Steps
from hotloop.core.storage.files import free_bytes
from hotloop.diagnosis.planned_data import data_of
from hotloop.jobs.forecast.limits import nearest_folder, room_needed
from hotloop.machine.torch_build import torch_build

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.core.effect import Effect
    from hotloop.jobs.first_steps import FirstSteps
    from hotloop.jobs.forecast.time_estimate import Estimate, Timing
    from hotloop.jobs.job import PreparedRun

__all__ = ["case_of_plan"]


def case_of_plan(
    prepared: PreparedRun,
    effects: Sequence[Effect],
    first_steps: FirstSteps,
    *,
    timing: Timing | None,
    time: Estimate | None,
    folder: Path,
) -> Case:
    """Return the case of a planned run from its first steps; `folder` is where it would be kept."""
    hardware, wall = prepared.hardware, first_steps.wall_time.rows()
    build = torch_build(driver=hardware.versions.get("driver"))
    existing = nearest_folder(folder)
    return Case(
        hardware=hardware,
        script=f"{TRAIN} {prepared.request.recipe.name}",
        wall=wall,
        steps=Steps(count=first_steps.made, wall=() if timing is None else timing.step.readings),
        process=ProcessFacts(other_cores=first_steps.busy_cores),
        own_time=first_steps.wall_time.elapsed() - sum(wall.values()),
        planned=PlannedRun(
            folder=str(existing),
            free_bytes=free_bytes(existing),
            gpu_here=build.gpu_here,
            torch_cuda=build.cuda,
            settings=_settings(prepared, effects, first_steps),
            memory=MemoryForecast(
                peak_bytes=prepared.decision.forecast.peak_bytes,
                sentence=prepared.decision.memory,
                advice=prepared.decision.too_much,
                halved=first_steps.halved,
            ),
            time=None if timing is None or time is None else _time(timing, time),
            data=data_of(prepared),
        ),
    )


def _settings(
    prepared: PreparedRun, effects: Sequence[Effect], first_steps: FirstSteps
) -> RunSettings:
    training, steps = prepared.request.config.training, prepared.steps
    size = prepared.decision.forecast.parameters_bytes + prepared.decision.forecast.optimizer_bytes
    intervals = (
        f"training.{key}={value}"
        for key in ("eval_every_steps", "eval_every_epochs")
        if (value := getattr(training, key)) is not None
    )
    return RunSettings(
        steps=steps,
        steps_per_epoch=prepared.feed.steps_per_epoch,
        batch_size=prepared.feed.batch_size,
        accumulation=prepared.plan.accumulation,
        learning_rate=training.learning_rate,
        parameters=prepared.decision.forecast.parameters,
        from_scratch=prepared.request.recipe.data == "characters",
        warm_up=training.warmup(steps),
        patience=training.patience,
        max_time=training.max_time,
        eval_interval=next(intervals, None),
        eval_each_epoch=bool(training.eval_every_epochs),
        save_every=training.save_every,
        save_every_steps=training.save_every_steps,
        keep=training.keep,
        checkpoint_bytes=size,
        needed_bytes=room_needed(size, training.keep),
        unwritable=first_steps.unwritable,
        problem=first_steps.problem,
        refused={row.technique: row.how for row in effects if row.word == "refused"},
    )


def _time(timing: Timing, time: Estimate) -> TimeForecast:
    return TimeForecast(
        rows=time.rows,
        steps=time.work.steps,
        step=timing.step.median,
        validations=time.work.validations,
        validation_batches=time.work.validation_batches,
        saves=time.saves,
    )
