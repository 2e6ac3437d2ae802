"""Builds the parts of a run's loop: metrics log, checkpoint policy, stop rules and schedule."""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING, Any

from hotloop.core.events import WARMUP_STEPS, newest_step
from hotloop.engine.checkpoint_policy import CheckpointPolicy, SavePolicy
from hotloop.engine.device_readings import reader, watched
from hotloop.engine.loop import StopRules
from hotloop.engine.lr_schedule import schedule
from hotloop.engine.metrics_log import MetricsLog
from hotloop.jobs.forecast.memory_fit import precision_of

if TYPE_CHECKING:
    from hotloop.core.progress import Notify
    from hotloop.core.storage.journal import Journal
    from hotloop.core.storage.rundir import RunDir
    from hotloop.engine.lr_schedule import Schedule
    from hotloop.engine.wall_time import WallTime
    from hotloop.jobs.job import PreparedRun
    from hotloop.session.accumulation_windows import Position
    from hotloop.session.session import Session

__all__ = ["checkpoint_policy_of", "log_gap", "metrics_log_of", "schedule_of", "stop_rules_of"]


def log_gap(run: RunDir, prepared: PreparedRun, position: Position) -> str | None:
    """Return a sentence that names the steps missing from a resumed run's log, or None."""
    written = newest_step(run.events_file(prepared.ranks.rank))
    if written >= position.step:
        return None
    lost = "step" if written + 1 == position.step else f"steps {written + 1:,} to"
    return (
        f"the log lacks {lost} {position.step:,}: it was cut off after the checkpoint was written. "
        "Nothing else is lost; reports have a gap there"
    )


def metrics_log_of(
    prepared: PreparedRun,
    session: Session,
    position: Position,
    wall_time: WallTime,
    notify: Notify,
    journal: Journal,
) -> MetricsLog:
    """Return the metrics log, after writing the session event and any `resumed_from` event."""
    metrics_log = MetricsLog(
        session=session,
        journal=journal,
        wall_time=wall_time,
        notify=notify,
        readings=watched(prepared.hardware, reader(prepared.hardware), notify),
        log_every=prepared.request.config.training.log_every,
        steps=prepared.steps,
        flops_per_token=prepared.flops_per_token,
        peak_flops=_peak_of_all(prepared),
        steady_from=position.step + WARMUP_STEPS + 1 if "compile" in session.undo else None,
    )
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    metrics_log.event("session", position.step, at=now, pid=os.getpid())
    if position.step or journal.had_lines:
        metrics_log.event("resumed_from", position.step, evaluated=position.evaluated)
    return metrics_log


def _peak_of_all(prepared: PreparedRun) -> float | None:
    """Return the peak FLOP/s summed over all ranks; None if unknown or if ranks share a CPU."""
    peak = prepared.hardware.peak_flops(precision_of(prepared.plan, prepared.hardware))
    if peak is None or (prepared.ranks.world > 1 and prepared.hardware.device != "cuda"):
        return None
    return peak.median * prepared.ranks.world


def stop_rules_of(prepared: PreparedRun) -> StopRules:
    """Return the rules for when to validate and when to stop, from the run's settings."""
    training = prepared.request.config.training
    return StopRules(
        steps=prepared.steps,
        max_time=training.max_time,
        gradient_clip=training.gradient_clip,
        evaluate_every_steps=training.eval_every_steps,
        evaluate_every_epochs=training.eval_every_epochs,
        evaluate_batches=training.eval_batches,
        evaluate_micro=training.batch_size // training.accumulation,
        patience=training.patience,
        min_delta=training.min_delta,
    )


def checkpoint_policy_of(
    run: RunDir,
    prepared: PreparedRun,
    session: Session,
    metrics_log: MetricsLog,
    wall_time: WallTime,
    **to: Any,
) -> CheckpointPolicy:
    """Return the checkpoint policy that the run's settings ask for.

    `to` holds further arguments of CheckpointPolicy.
    """
    training = prepared.request.config.training
    return CheckpointPolicy(
        run=run,
        session=session,
        identity=prepared.identity,
        policy=SavePolicy(
            every_steps=training.save_every_steps,
            every_seconds=training.save_every,
            keep=training.keep,
            best_cooldown=training.best_cooldown,
        ),
        wall_time=wall_time,
        metrics_log=metrics_log,
        **to,
    )


def schedule_of(prepared: PreparedRun) -> Schedule:
    """Return the schedule that gives the learning rate of each optimizer step of the run."""
    training = prepared.request.config.training
    return schedule(
        training.schedule,
        peak=training.learning_rate,
        floor=training.min_learning_rate,
        warmup=training.warmup(prepared.steps),
        total=prepared.steps,
    )
