"""Estimates the time left, once after the first steps, and warns if saving takes much of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.core.units import duration, many, moment
from hotloop.engine.checkpoint_policy import BEST_BUDGET

if TYPE_CHECKING:
    from hotloop.engine.checkpoint_policy import CheckpointPolicy
    from hotloop.engine.metrics_log import MetricsLog
    from hotloop.engine.wall_time import WallTime
    from hotloop.session.accumulation_windows import Position

__all__ = ["LOOK", "TimeLeft"]

LOOK = 10  # optimizer steps of a process before the estimate; the first one is not timed
SOON = 60.0  # seconds; if all steps take less, no setting is worth tuning
COSTLY = 0.1  # share of the run; if saving takes less, there is no warning
WORTH = 10.0  # seconds of saving in total; if it takes less, there is no warning


class TimeLeft:
    """Times the first steps of a process; its messages also go into the log."""

    def __init__(
        self,
        steps: int,
        per_epoch: int,
        wall_time: WallTime,
        metrics_log: MetricsLog,
        checkpoint_policy: CheckpointPolicy,
    ) -> None:
        """`steps` are the optimizer steps of the whole run, `per_epoch` those of an epoch."""
        self._steps, self._per_epoch = steps, per_epoch
        self._wall_time, self._metrics_log = wall_time, metrics_log
        self._checkpoint_policy = checkpoint_policy
        self._made, self._before = 0, 0.0
        self._each: float | None = None  # seconds of a step
        self._is_done = False

    def step(self, position: Position) -> None:
        """Count a completed step; `position` is the position after it."""
        if self._is_done:
            return
        self._made += 1
        if self._made in (1, LOOK):
            self._metrics_log.flush()  # no work is left on the device
            worked = self._wall_time.in_steps()
            if self._made == 1:
                self._before = worked
            else:
                self._each = (worked - self._before) / (LOOK - 1)
                if position.step < self._steps:
                    self._metrics_log.note(position.step, self._time_left(position, self._each))
        if self._each is not None and self._checkpoint_policy.durable is not None:
            self._is_done = True
            if (cost := self._saving(self._each, self._checkpoint_policy.durable)) is not None:
                self._metrics_log.note(position.step, cost, warning=True)

    def _time_left(self, position: Position, step_seconds: float) -> str:
        left, whole = self._steps - position.step, self._steps * step_seconds
        rows = self._wall_time.rows()
        set_up = rows["start"] + rows["compile"]
        rest = f"time left: {moment(left * step_seconds)} for {many(left, 'step')}"
        if whole >= SOON and whole >= set_up:
            return f"{rest}, {1 / step_seconds:.3g} steps/s; validating and saving come on top"
        what = "the data are so small" if self._steps >= self._per_epoch else "the steps are so few"
        return (
            f"{rest}; {what} that speed does not matter (all {self._steps:,} steps take "
            f"{moment(whole)}, the set-up took {moment(set_up)}): look at the answers instead"
        )

    def _saving(self, step_seconds: float, durable: float) -> str | None:
        """Return a sentence on the cost of saving and how to reduce it; None if it is cheap."""
        policy, whole = self._checkpoint_policy.policy, self._steps * step_seconds
        by_steps = self._steps // policy.every_steps if policy.every_steps else 0
        by_time = int(whole / policy.every_seconds) if policy.every_seconds else 0
        saves = max(by_steps, by_time)
        spent = saves * durable
        share = min(1.0, spent / (whole if self._checkpoint_policy.is_beside else whole + spent))
        if spent < WORTH or share < COSTLY:
            return None
        how = "of the time a save is being written in the background"
        if not self._checkpoint_policy.is_beside:
            how = "of the run goes into saving"
        return (
            f"{share:.0%} {how}: {many(saves, 'save')} x {moment(durable)} = {duration(spent)}, "
            f"against {duration(whole)} of steps. About {BEST_BUDGET:.0%}, in a new run: "
            f"{', '.join(self._cheaper(step_seconds, durable))}"
        )

    def _cheaper(self, step_seconds: float, durable: float) -> list[str]:
        policy, seconds = self._checkpoint_policy.policy, math.ceil(durable / BEST_BUDGET)
        settings = []
        if policy.every_steps and policy.every_steps * step_seconds < seconds:
            steps = math.ceil(seconds / step_seconds)
            epochs = f" ({steps / self._per_epoch:.0f} epochs)"
            text = f"{steps}{epochs if steps >= 2 * self._per_epoch else ''}"
            settings.append(f"training.save_every_steps={text if steps < self._steps else 'null'}")
        if policy.every_seconds and policy.every_seconds < seconds:
            settings.append(f"training.save_every={seconds}s")
        if policy.keep > 2:
            settings.append("training.keep=2 (each save verifies those that are kept)")
        return settings
