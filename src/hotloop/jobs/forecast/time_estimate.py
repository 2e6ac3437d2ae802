"""What a run will take: a few measured times, and their sum over its steps and what stands between.

The rows have the names of the ledger that `hotloop train` keeps, so both can be laid side by side.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.engine.checkpoint_policy import BEST_BUDGET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.config.common import Training
    from hotloop.core.measurement import Measurement

__all__ = ["Estimate", "Timing", "Workload", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What was measured on the real session. Seconds."""

    start: float  # from the start of the process to the first step, without compiling
    compile: float
    step: Measurement  # one optimizer step, the wait for its data included
    data_wait: float  # of one step, on average
    validation: Measurement  # one micro batch of a validation
    save: float | None  # what the loop waits for a checkpoint; None: none could be written
    losses: tuple[float, float]  # of the first and the last step made
    made: int  # optimizer steps, warm-up included


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """How much of everything a run does, if nothing ends it early."""

    steps: int  # optimizer steps
    validations: int
    validation_batches: float  # micro batches of one validation; the last one may be smaller
    fixed_saves: int  # by the number of steps, the first and the last included

    @classmethod
    def of(
        cls,
        training: Training,
        *,
        steps: int,
        steps_per_epoch: int,
        micro_batch: int,
        validation: int,
    ) -> Workload:
        """Count as the loop does; `validation` is the number of samples there are."""
        every = training.eval_every_steps
        if training.eval_every_epochs:
            every = training.eval_every_epochs * steps_per_epoch
        read = validation
        if training.eval_batches is not None:
            read = min(validation, training.eval_batches * micro_batch)
        return cls(
            steps=steps,
            validations=-(-steps // every) if every else 1,
            validation_batches=read / micro_batch,
            fixed_saves=training.fixed_saves(steps),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A forecast of the wall time, from a timing."""

    rows: Mapping[str, float]  # seconds by row of training.ledger
    work: Workload
    saves: float  # how many checkpoints, on average
    low: float  # seconds, with steps as fast as the first quartile of the readings
    high: float  # seconds, with the third

    @property
    def seconds(self) -> float:
        """The whole run."""
        return sum(self.rows.values())

    def share(self, *rows: str) -> float:
        """Return the part of the whole that some rows take, 0..1."""
        return sum(self.rows[row] for row in rows) / self.seconds

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "seconds": self.seconds,
            "low": self.low,
            "high": self.high,
            "rows": dict(self.rows),
            "steps": self.work.steps,
            "validations": self.work.validations,
            "saves": self.saves,
        }


def estimate(timing: Timing, work: Workload, training: Training) -> Estimate:
    """Return the sum: start, compile, steps x median, validations and saves.

    A new best validation is saved when its cooldown is over. Every validation but the last, which
    meets the save at the end, is taken for one, so that row is an upper bound.
    """
    rows = {
        "start": timing.start,
        "compile": timing.compile,
        "data wait": min(timing.data_wait, timing.step.median) * work.steps,
        "step": max(0.0, timing.step.median - timing.data_wait) * work.steps,
        "evaluate": timing.validation.median * work.validation_batches * work.validations,
        "save": 0.0,
    }
    so_far = sum(rows.values())
    saves = max(float(work.fixed_saves), so_far // training.save_every)
    if timing.save:
        apart, best = training.best_cooldown, work.validations - 1.0
        if apart is None:
            apart = timing.save / BEST_BUDGET
        if apart:
            best = max(0.0, min(best, so_far / apart - saves))
        saves += best
        rows["save"] = timing.save * saves
    low, high = _quartiles(timing.step)
    rest = sum(rows.values()) - timing.step.median * work.steps
    return Estimate(
        rows=rows,
        work=work,
        saves=saves,
        low=rest + low * work.steps,
        high=rest + high * work.steps,
    )


def _quartiles(measured: Measurement) -> tuple[float, float]:
    if measured.n < 2:
        return measured.median, measured.median
    low, _, high = statistics.quantiles(measured.readings, n=4, method="inclusive")
    return low, high
