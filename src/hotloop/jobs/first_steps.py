"""Runs and times the first steps of a run on its real session, then a validation and a save."""

from __future__ import annotations

import math
import os
import traceback
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hotloop.core.errors import DeviceError, DivergedError, WriteError
from hotloop.core.events import WARMUP_STEPS
from hotloop.core.measurement import Measurement
from hotloop.core.progress import Working
from hotloop.core.storage.files import free_bytes, make_folder, remove_folder
from hotloop.engine import apply_plan
from hotloop.engine.checkpoint import folders, state
from hotloop.engine.checkpoint.background_writer import Background
from hotloop.engine.evaluate import evaluate
from hotloop.engine.prefetch import source_of
from hotloop.engine.rank_agreement import Now, RankAgreement, Share
from hotloop.engine.step import (
    NonFiniteGuard,
    accumulate_shared,
    drop_gradients,
    halve_micro_batch,
    is_out_of_memory,
    update,
)
from hotloop.jobs.build_loop import schedule_of
from hotloop.jobs.forecast.time_estimate import Timing
from hotloop.machine.clock import clock
from hotloop.machine.threads import load, others

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from hotloop.core.progress import Notify
    from hotloop.engine.signals import Signals
    from hotloop.engine.wall_time import WallTime
    from hotloop.jobs.job import PreparedRun
    from hotloop.session.accumulation_windows import Position
    from hotloop.session.session import Session

__all__ = ["FirstSteps", "StepBudget"]

READINGS = 20  # the fewest readings whose median is trusted before the time limit
SHORTEST = 0.02  # seconds; shorter steps are combined into one reading
VALIDATION_READINGS, VALIDATION_MOST = 5, 3.0  # readings; seconds
VALIDATION_SHORTEST = 0.2  # seconds of a reading, so that fixed costs of a call do not count


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBudget:
    """How many steps to time after the warm-up: a fixed number, or until the median is stable."""

    steps: int | None = None
    least: float = 3.0  # seconds, if `steps` is None
    most: float = 10.0  # seconds, if `steps` is None


class FirstSteps:
    """A session that runs the first steps of a run, and the problems that occurred.

    Each rank has one, and all ranks run the same steps; `time` is for single-process runs.
    `before_update` receives the loss of each step, a scalar on the device, after the last micro
    batch and before clipping and update, when the gradients are complete.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        session: Session,
        position: Position,
        *,
        wall_time: WallTime,
        signals: Signals,
        notify: Notify,
        before_update: Callable[[Tensor], None] = lambda loss: None,
    ) -> None:
        self._before_update = before_update
        self._prepared, self._session, self._at = prepared, session, position
        self.wall_time, self._signals, self._notify = wall_time, signals, notify
        self._source, self._guard = source_of(prepared.feed, session), NonFiniteGuard(session)
        self._rate, self._training = schedule_of(prepared), prepared.request.config.training
        self._agreement = RankAgreement(session.parallel.group, Now)
        self._losses: list[float] = []
        self._readings: list[float] = []  # seconds of a step
        self.problem: str | None = None
        self.halved: str | None = None
        self.unwritable: str | None = None
        self.busy_cores = 0.0

    def time(self, budget: StepBudget, folder: Path) -> Timing | None:
        """Time steps, a validation and a save in `folder`; return None if the loss diverged."""
        before, watched = self.wall_time.rows(), load()
        try:
            waited = self._time_steps(budget)
            self.busy_cores = others(watched, load())
        except DivergedError as error:
            self.problem = str(error)
            return None
        return Timing(
            start=before["start"],
            compile=before["compile"],
            step=Measurement(unit="s", readings=tuple(self._readings)),
            data_wait=waited,
            validation=Measurement(unit="s", readings=self.validations()),
            save=self.save(folder),
            losses=(self._losses[0], self._losses[-1]),
            made=self._at.step,
        )

    @property
    def made(self) -> int:
        """Optimizer steps made."""
        return self._at.step

    @property
    def epochs(self) -> int:
        """Epochs begun."""
        return self._at.epoch + (self._at.sample > 0)

    @property
    def micro_batch(self) -> int:
        """Samples of a forward pass; fewer than planned after an out-of-memory error."""
        return self._session.micro_batch

    def close(self) -> None:
        """Close the batch source and restore the process's switches."""
        self._source.close()
        apply_plan.undo(self._session)

    def _time_steps(self, budget: StepBudget) -> float:
        """Fill the readings; return the mean seconds that a step waited for its data."""
        self._session.model.train()
        began = clock()
        for _ in range(WARMUP_STEPS):
            self._make(1)
            if clock() - began > budget.least:
                break
        # With lagged loss reads the loop waits for the device once per log interval.
        block = self._training.log_every if self._session.stepping.lag_reads else 1
        block = max(block, int(SHORTEST / self._readings[-1]))
        self._readings.clear()
        began, waited, first = clock(), self.wall_time.rows()["data wait"], self._at.step
        while not self._enough(clock() - began, self._at.step - first, budget):
            left = block if budget.steps is None else budget.steps - (self._at.step - first)
            self._make(min(block, left))
        return (self.wall_time.rows()["data wait"] - waited) / (self._at.step - first)

    def _enough(self, seconds: float, made: int, budget: StepBudget) -> bool:
        if budget.steps is not None:
            self._notify(Working(what="timing steps", share=made / budget.steps))
            return made >= budget.steps
        self._notify(Working(what="timing steps", share=min(1.0, seconds / budget.most)))
        if not self._readings or seconds < budget.least:
            return False
        stable = Measurement(unit="s", readings=tuple(self._readings)).why_unstable() is None
        return seconds >= budget.most or (len(self._readings) >= READINGS and stable)

    def _make(self, steps: int) -> None:
        """Run `steps` steps, wait for the device, and record the mean seconds of one step."""
        began = clock()
        for _ in range(steps):
            loss = self.step()
            if not self._session.stepping.lag_reads:
                loss.item()  # as the run's log does
        value = loss.item()
        self.wall_time.mark("wait")
        if not math.isfinite(value):
            raise DivergedError(f"the loss is {value} at optimizer step {self._at.step}")
        self._losses.append(value)
        self._readings.append((clock() - began) / steps)

    def step(self) -> Tensor:
        """Run one optimizer step; return its loss, a scalar on the device.

        The model must be in training mode. Raises DivergedError, DeviceError, and any exception
        of the model.
        """
        session = self._session
        assert session.optimizer is not None
        for group in session.optimizer.param_groups:
            group["lr"] = self._rate(self._at.step)
        loss = self._accumulate()
        self._before_update(loss)
        try:
            update(session, self._guard, loss, self._training.gradient_clip)
        except DivergedError as error:
            raise DivergedError(f"{error}, at optimizer step {self._at.step + 1}") from error
        self.wall_time.mark("update")
        self._at = self._prepared.feed.after(self._at)
        self._source.prepare(self._at, session.micro_batch)
        return loss

    def _accumulate(self) -> Tensor:
        """Return the loss of the next window; halve the micro batch when out of memory."""
        session, poll = self._session, self._signals.poll
        while True:
            try:
                window = self._source.window(self._at, session.micro_batch)
                self.wall_time.mark("data")
                targets = self._agreement.window(Share.of(window)).targets
                return accumulate_shared(session, window, self.wall_time, poll, targets=targets)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                traceback.clear_frames(error.__traceback__)  # they hold the failed activations
            self._halve()

    def _halve(self) -> None:
        was = self._session.micro_batch
        if self._session.parallel.group.world > 1:  # the other ranks are in mid-window
            raise DeviceError(f"out of memory with a micro batch of {was}")
        drop_gradients(self._session)
        if not halve_micro_batch(self._session, self._prepared.feed.batch_size):
            raise DeviceError(
                "out of memory with a micro batch of 1: use a smaller model or shorter "
                "samples (hotloop explain out-of-memory)"
            )
        self.halved = (
            f"out of memory with a micro batch of {was}; with {self._session.micro_batch} it goes "
            "on, as hotloop train would"
        )
        self._readings.clear()

    def validations(self) -> tuple[float, ...]:
        """Return readings of the seconds that one validation micro batch takes.

        The first call, which may load kernels, sets how many micro batches make a reading. It is
        left out unless it alone uses up the time limit.
        """
        size, valid = self._session.micro_batch, self._prepared.job.valid
        readings: list[float] = []
        batches, began = 1, clock()
        while len(readings) <= VALIDATION_READINGS:
            before = clock()
            evaluate(self._session, valid, self._signals.poll, batches=batches)
            spans = self._session.job.cut(valid, 0, 0, len(valid), size)[:batches]
            read = sum(count for _, count in spans)  # a cut by tokens takes more short rows
            readings.append((clock() - before) * size / read)
            if clock() - began > VALIDATION_MOST:
                break
            batches = max(1, int(VALIDATION_SHORTEST / readings[0]))
        self.wall_time.mark("evaluate")
        return tuple(readings[1:] or readings)

    def save(self, parent: Path) -> float | None:
        """Return the seconds that the loop waits for a checkpoint; remove the trial checkpoint.

        Returns None if `parent` has too little free space or the write fails.
        """
        folder = parent / f".hotloop-rehearsal-{os.getpid()}"
        if free_bytes(parent) < self._prepared.checkpoint_bytes:
            return None
        try:
            try:
                return self._saved(make_folder(folder))
            finally:
                if folder.exists():
                    remove_folder(folder)
                self.wall_time.mark("save")
        except WriteError as error:
            self.unwritable = str(error)
            return None

    def _saved(self, folder: Path) -> float:
        identity = self._prepared.identity
        snapshot = partial(state.take, self._session, self._at, identity, validation_loss=None)
        if self._session.stepping.background_saves:  # the loop waits for a copy into memory
            background = Background[None]()
            try:
                for _ in range(2):
                    began = clock()
                    background.start(snapshot(), lambda _: None)
                    waited = clock() - began
                    background.take(wait=True)
            finally:
                background.close()
            return waited
        began = clock()
        state.write(folder, snapshot())
        written = clock()
        folders.listing(folder, verify=True)  # retention verifies every stored checkpoint
        there: int = self._training.keep + 1
        return written - began + there * (clock() - written)
