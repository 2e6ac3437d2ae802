"""Rehearses a run: assembles it, makes its first steps for real, and says what it will come to.

The steps are those that `hotloop train` would begin with, bit for bit, on the same session. Then
all of it is thrown away. What stays is the token cache, which the run itself will use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
    from hotloop.core.progress import Tell
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
    """What a rehearsal found. The run itself has not been begun."""

    parts: PreparedRun
    effects: Sequence[Effect]
    timing: Timing | None  # None when the first steps could not be made
    estimate: Estimate | None
    diagnosis: Diagnosis
    folder: Path  # where hotloop train would put the run

    def facts(self) -> dict[str, str]:
        """Return what a user may want to look at besides the facts of the run."""
        room, example = free_bytes(nearest_folder(self.folder)), self.parts.job.example
        return {
            **({} if example is None else {"first sample": f"{example()!r} ..."}),
            "disk": f"{bytes_(room)} free at {nearest_folder(self.folder)}",
        }

    def to_json(self) -> dict[str, object]:
        """Return findings.json, with the estimate and the facts of the run."""
        return {
            **self.diagnosis.to_json(),
            "estimate": self.estimate and self.estimate.to_json(),
            "facts": {**self.parts.facts(), **self.facts()},
            "plan": self.parts.plan.to_json(),
            "effects": [effect.to_json() for effect in self.effects],
            "hardware": self.parts.hardware.to_json(),
        }


_DEFAULT = StepBudget()


def rehearse(
    request: RunRequest,
    *,
    tell: Tell,
    signals: Signals,
    budget: StepBudget = _DEFAULT,
    out: Path | None = None,
    began: float | None = None,
) -> RecipeCheck:
    """Assemble a request, time its first steps, a validation and a save, and judge it.

    `out` is where the run would go; `began` is when the process began, on machine.clock's scale.
    Raises what `engine.train` raises before step 1, and Dropped after a signal.
    """
    request.refuse_series()
    wall_time, folder = WallTime(clock, began=began), out or default_folder(request.recipe.name)
    RunDir(folder).refuse_if_used()
    with signals.installed():
        with signals.droppable(at_once=True):
            parts = assemble(request, tell, signals.poll)
        return rehearsed(
            parts, budget=budget, folder=folder, wall_time=wall_time, signals=signals, tell=tell
        )


def rehearsed(
    parts: PreparedRun,
    *,
    budget: StepBudget,
    folder: Path,
    wall_time: WallTime,
    signals: Signals,
    tell: Tell,
) -> RecipeCheck:
    """Rehearse what is assembled; `folder` is where the run would go, and is not made."""
    session, effects, at = set_up(
        parts, lambda session: start_weights(parts, session, tell), wall_time, signals, tell
    )
    wall_time.mark("start")
    tried = FirstSteps(parts, session, at, wall_time=wall_time, signals=signals, tell=tell)
    try:
        with signals.droppable(at_once=True):
            timing = tried.time(budget, nearest_folder(folder))
            return _judged(parts, effects, timing, tried, folder)
    finally:
        tried.close()


def _judged(
    parts: PreparedRun,
    effects: Sequence[Effect],
    timing: Timing | None,
    tried: FirstSteps,
    folder: Path,
) -> RecipeCheck:
    training, time = parts.request.config.training, None
    if timing is not None:
        work = Workload.of(
            training,
            steps=parts.steps,
            steps_per_epoch=parts.feed.steps_per_epoch,
            micro_batch=tried.micro_batch,
            validation=len(parts.job.valid),
        )
        time = estimate(timing, work, training)
    case = case_of_plan(parts, effects, tried, timing=timing, time=time, folder=folder)
    return RecipeCheck(
        parts=parts,
        effects=effects,
        timing=timing,
        estimate=time,
        diagnosis=diagnose(replace(case, not_checked=NOT_CHECKED)),
        folder=folder,
    )
