"""Estimates the wall time of a run from the measured times of steps, validations and saves.

The rows have the names of the ledger that `hotloop train` keeps, so that both can be compared.
"""

from __future__ import annotations

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
    """Times measured on the real session, in seconds."""

    start: float  # from the start of the process to the first step, without compiling
    compile: float
    step: Measurement  # one optimizer step, including the wait for its data
    data_wait: float  # mean of one step
    validation: Measurement  # one micro batch of a validation
    save: float | None  # the loop's wait for a checkpoint; None if none could be written
    losses: tuple[float, float]  # of the first and the last step made
    made: int  # optimizer steps, warm-up included


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The numbers of steps, validations and saves of a run, if nothing ends it early."""

    steps: int  # optimizer steps
    validations: int
    validation_batches: float  # micro batches of one validation; the last one may be smaller
    fixed_saves: int  # saves by step number, including the first and the last

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
        """Count as the loop does; `validation` is the number of validation samples."""
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
    """A forecast of the wall time, computed from a timing."""

    rows: Mapping[str, float]  # seconds by row of training.ledger
    work: Workload
    saves: float  # estimated number of checkpoints
    low: float  # seconds, if steps take the first quartile of the readings
    high: float  # seconds, if steps take the third quartile

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return sum(self.rows.values())

    def share(self, *rows: str) -> float:
        """Return the fraction (0 to 1) of the wall time that `rows` take."""
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
    """Estimate the wall time: start, compile, steps x median step, validations and saves.

    A new best validation is saved once its cooldown is over. Every validation except the last,
    which coincides with the final save, counts as a new best, so the row "save" is an upper bound.
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
    low, high = timing.step.quartiles or (timing.step.median,) * 2
    rest = sum(rows.values()) - timing.step.median * work.steps
    return Estimate(
        rows=rows,
        work=work,
        saves=saves,
        low=rest + low * work.steps,
        high=rest + high * work.steps,
    )
