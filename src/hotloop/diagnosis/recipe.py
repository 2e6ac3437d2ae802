"""Rehearses a run: assembles it, makes its first steps, and estimates its time and memory.

The steps are bit for bit those that `hotloop train` would begin with, on the same session. Then
everything is discarded except the token cache, which the run itself will use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotloop.core.codec import to_json
from hotloop.core.storage.files import free_bytes
from hotloop.core.storage.rundir import RunDir
from hotloop.core.units import bytes_
from hotloop.diagnosis.planned_run import case_of_plan
from hotloop.engine.wall_time import WallTime
from hotloop.jobs.first_steps import FirstSteps, StepBudget
from hotloop.jobs.forecast.limits import nearest_folder
from hotloop.jobs.forecast.time_estimate import Workload, estimate
from hotloop.jobs.job import assemble, default_folder
from hotloop.jobs.run import set_up
from hotloop.jobs.start_point import start_weights
from hotloop.machine.clock import clock
from hotloop.rules.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.core.effect import Effect
    from hotloop.core.finding import Diagnosis
    from hotloop.core.progress import Notify
    from hotloop.engine.signals import Signals
    from hotloop.jobs.forecast.time_estimate import Estimate, Timing
    from hotloop.jobs.job import PreparedRun
    from hotloop.jobs.request import RunRequest

__all__ = ["RecipeCheck", "rehearse", "rehearsed"]

NOT_CHECKED = (
    "how well it will learn: only the first steps were made",
    "whether the memory is enough in fact: it is a forecast, beside the steps that were made",
    "other plans and batch sizes: only this plan was timed",
    "how other processes, heat or a laptop's battery will change the speed meanwhile",
    "the rules for scripts (code, input pipeline, kernels): they look at somebody's own script",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeCheck:
    """The result of a rehearsal. The run itself has not started."""

    prepared: PreparedRun
    effects: Sequence[Effect]
    timing: Timing | None  # None if the first steps could not be made
    estimate: Estimate | None
    diagnosis: Diagnosis
    folder: Path  # where hotloop train would put the run

    def facts(self) -> dict[str, str]:
        """Return facts for the user to check, in addition to those of the run."""
        room, example = free_bytes(nearest_folder(self.folder)), self.prepared.job.example
        return {
            **({} if example is None else {"first sample": f"{example()!r} ..."}),
            "disk": f"{bytes_(room)} free at {nearest_folder(self.folder)}",
        }

    def to_json(self) -> dict[str, object]:
        """Return findings.json, with the estimate and the facts of the run."""
        return {
            **self.diagnosis.to_json(),
            "estimate": self.estimate and self.estimate.to_json(),
            "facts": {**self.prepared.facts(), **self.facts()},
            "plan": self.prepared.plan.to_json(),
            "effects": [to_json(effect) for effect in self.effects],
            "hardware": self.prepared.hardware.to_json(),
        }


_DEFAULT = StepBudget()


def rehearse(
    request: RunRequest,
    *,
    notify: Notify,
    signals: Signals,
    budget: StepBudget = _DEFAULT,
    out: Path | None = None,
    began: float | None = None,
) -> RecipeCheck:
    """Assemble a request, time its first steps, a validation and a save, and diagnose it.

    `out` is where the run would go; `began` is the start of the process on machine.clock's scale.
    Raises the errors that `jobs.train` raises before step 1, and Dropped after a signal.
    """
    request.refuse_series()
    wall_time, folder = WallTime(clock, began=began), out or default_folder(request.recipe.name)
    RunDir(folder).refuse_if_used()
    with signals.installed():
        with signals.droppable(at_once=True):
            prepared = assemble(request, notify, signals.poll)
        return rehearsed(
            prepared,
            budget=budget,
            folder=folder,
            wall_time=wall_time,
            signals=signals,
            notify=notify,
        )


def rehearsed(
    prepared: PreparedRun,
    *,
    budget: StepBudget,
    folder: Path,
    wall_time: WallTime,
    signals: Signals,
    notify: Notify,
) -> RecipeCheck:
    """Rehearse an assembled run; `folder` is where the run would go, and is not created."""
    session, effects, position = set_up(
        prepared,
        lambda session: start_weights(prepared, session, notify),
        wall_time,
        signals,
        notify,
    )
    wall_time.mark("start")
    first_steps = FirstSteps(
        prepared, session, position, wall_time=wall_time, signals=signals, notify=notify
    )
    try:
        with signals.droppable(at_once=True):
            timing = first_steps.time(budget, nearest_folder(folder))
            return _judged(prepared, effects, timing, first_steps, folder)
    finally:
        first_steps.close()


def _judged(
    prepared: PreparedRun,
    effects: Sequence[Effect],
    timing: Timing | None,
    first_steps: FirstSteps,
    folder: Path,
) -> RecipeCheck:
    training, time = prepared.request.config.training, None
    if timing is not None:
        work = Workload.of(
            training,
            steps=prepared.steps,
            steps_per_epoch=prepared.feed.steps_per_epoch,
            micro_batch=first_steps.micro_batch,
            validation=len(prepared.job.valid),
        )
        time = estimate(timing, work, training)
    case = case_of_plan(prepared, effects, first_steps, timing=timing, time=time, folder=folder)
    return RecipeCheck(
        prepared=prepared,
        effects=effects,
        timing=timing,
        estimate=time,
        diagnosis=diagnose(replace(case, not_checked=NOT_CHECKED)),
        folder=folder,
    )
