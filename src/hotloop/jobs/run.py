"""Runs an assembled run in its folder: sets up the session, restores, trains, records the end."""

from __future__ import annotations

import platform
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hotloop.core.codec import to_json
from hotloop.core.errors import (
    DataError,
    DeviceError,
    DivergedError,
    HotloopError,
    LostRankError,
    WriteError,
)
from hotloop.core.progress import Note, ReadyToTrain
from hotloop.engine import apply_plan, compile_trial
from hotloop.engine.checkpoint import folders
from hotloop.engine.device_readings import idle_told, peak_told
from hotloop.engine.graphs.trial import BATCHES, record
from hotloop.engine.loop import Ending, Loop
from hotloop.engine.prefetch import source_of
from hotloop.engine.signals import Dropped
from hotloop.engine.step import is_out_of_memory
from hotloop.engine.wall_time import recompiling
from hotloop.jobs.build_loop import (
    checkpoint_policy_of,
    log_gap,
    metrics_log_of,
    schedule_of,
    stop_rules_of,
)
from hotloop.jobs.forecast.per_rank_memory import of_rank
from hotloop.jobs.start_point import beside, restore
from hotloop.session.accumulation_windows import Position
from hotloop.session.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hotloop.core.effect import Effect
    from hotloop.core.progress import Notify
    from hotloop.core.storage.files import Disk
    from hotloop.core.storage.rundir import RunDir
    from hotloop.engine.signals import Signals
    from hotloop.engine.wall_time import WallTime
    from hotloop.jobs.job import PreparedRun
    from hotloop.session.session import Session

__all__ = ["RunResult", "execute", "interrupted", "set_up"]

TOO_LARGE = "Use a smaller model or context, or raise training.accumulation"
TOO_LARGE_FOR_ALL = (
    "Of several processes none takes a smaller one by itself: begin anew from these weights with "
    "init_from=RUN_DIR and a larger training.accumulation, or go on with one process, which does"
)
DIVERGED = (
    "Lower training.learning_rate, lengthen training.warmup_steps, set training.gradient_clip, or "
    "look at those samples (hotloop explain unstable-loss); hotloop sample and --resume use "
    "the last good checkpoint"
)
TIME_LIMIT = 75  # exit code of a run that can be resumed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run. `exit_code` is the exit code of the command line."""

    path: Path | None  # None if a signal arrived before the folder was created
    reason: str  # complete, early stop, time limit, signal
    exit_code: int
    step: int
    best_loss: float | None = None  # of the validations
    best_score: float | None = None  # of the job's judge, if it has one
    best_step: int | None = None
    wall: Mapping[str, float] | None = None  # seconds of this process by row
    resume_command: str | None = None  # None if there is nothing left to do


def execute(
    run: RunDir,
    prepared: PreparedRun,
    *,
    wall_time: WallTime,
    signals: Signals,
    notify: Notify,
    disk: Disk,
) -> RunResult:
    """Train from the newest sound checkpoint, or from step 0 if there is none.

    Writes every ending to run.json, errors included. Raises a HotloopError.
    """
    wall_time.mark("start")
    try:
        place = partial(restore, run, prepared, notify=notify)
        session, effects, position = set_up(prepared, place, wall_time, signals, notify)
        facts = prepared.facts(run.checkpoints if prepared.ranks.rank == 0 else None)
        rows = [to_json(effect) for effect in effects]
        who = _who(run, prepared)
        _note_down(run, prepared, effects=rows, facts=facts, status="running", **who)
        notify(
            ReadyToTrain(
                path=run.path,
                facts=facts,
                choices=[(str(c.use), c.origin, c.reason) for c in prepared.decision.choices],
                effects=effects,
            )
        )
        return _train(run, prepared, session, effects, position, wall_time, signals, notify, disk)
    except Dropped:
        _note_down(run, prepared, status="stopped", reason="signal")
        return interrupted(run, signals)
    except BaseException as error:
        if prepared.ranks.rank == 0 and _is_running(run):
            run.update(status="failed", reason=_reason(error))
        raise


def _is_running(run: RunDir) -> bool:
    """Whether the record says `running`; False if the record is gone or unreadable."""
    try:
        return run.read().get("status") == "running"
    except DataError:
        return False


def _reason(error: BaseException) -> str:
    """Return the record's text for an error; the type is added unless it is a HotloopError."""
    return str(error) if isinstance(error, HotloopError) else f"{type(error).__name__}: {error}"


def _note_down(run: RunDir, prepared: PreparedRun, **fields: object) -> None:
    """Replace fields of the record; only rank 0 writes."""
    if prepared.ranks.rank == 0:
        run.update(**fields)


def _who(run: RunDir, prepared: PreparedRun) -> dict[str, object]:
    """Return the record's `ranks` field for this session; a single process clears an old one."""
    ranks = prepared.ranks
    if ranks.world == 1:
        return {"ranks": None} if run.read().get("ranks") else {}
    hosts = ranks.exchange(platform.node())
    backend = "nccl" if prepared.hardware.device == "cuda" else "gloo"
    return {"ranks": {"world": ranks.world, "backend": backend, "hosts": hosts}}


def interrupted(run: RunDir, signals: Signals) -> RunResult:
    """Return the result of a run that a signal stopped before the first step of this process."""
    assert signals.received is not None
    saved = folders.listing(run.checkpoints)
    return RunResult(
        path=run.path,
        reason="signal",
        exit_code=128 + signals.received,
        step=saved[-1].step if saved else 0,
        resume_command=run.resume_command,
    )


def _train(
    run: RunDir,
    prepared: PreparedRun,
    session: Session,
    effects: list[Effect],
    position: Position,
    wall_time: WallTime,
    signals: Signals,
    notify: Notify,
    disk: Disk,
) -> RunResult:
    gap = log_gap(run, prepared, position)
    journal = run.journal(prepared.ranks.rank, disk=disk)
    source = source_of(prepared.feed, session)
    try:
        metrics_log = metrics_log_of(prepared, session, position, wall_time, notify, journal)
        checkpoint_policy = checkpoint_policy_of(
            run, prepared, session, metrics_log, wall_time,
            notify=notify, disk=disk, last_step=position.step,
            beside=beside(run) if prepared.ranks.rank == 0 else {},
        )  # fmt: skip
        if gap is not None:
            metrics_log.note(position.step, gap, warning=True)
        loop = Loop(
            session=session,
            feed=prepared.feed,
            source=source,
            rules=stop_rules_of(prepared),
            rate=schedule_of(prepared),
            metrics_log=metrics_log,
            checkpoint_policy=checkpoint_policy,
            wall_time=wall_time,
            signals=signals,
            notify=notify,
            fell_back=_fell_back(run, effects),
        )
        try:
            ended = _drive(run, prepared, loop, position)
            forecast = of_rank(prepared.decision.forecast, prepared.plan)
            if (peak := peak_told(prepared.hardware, forecast.peak_bytes)) is not None:
                notify(Note(text=peak))
            used = metrics_log.used_sum, metrics_log.used_count
            if (idle := idle_told(prepared.hardware, *used, wall_time.in_steps())) is not None:
                notify(Note(text=idle))
            return ended
        finally:
            checkpoint_policy.close()
    finally:
        source.close()
        journal.close()
        apply_plan.undo(session)  # restore the caller's process switches


def set_up(
    prepared: PreparedRun,
    place: Callable[[Session], Position],
    wall_time: WallTime,
    signals: Signals,
    notify: Notify,
) -> tuple[Session, list[Effect], Position]:
    """Return the prepared session, the effects of its techniques, and the start position.

    `place` restores the session and returns that position. Compilation and graph recording count
    as "compile" in the wall time.
    """
    session, effects = apply_plan.prepare(
        prepared.job,
        prepared.plan,
        prepared.hardware,
        prepared.decision.origins,
        ranks=prepared.ranks,
    )
    try:
        position = place(session)
        if "compile" in session.undo:
            wall_time.mark("start")
            with signals.droppable(at_once=True):
                effects = _compiled(prepared, session, effects)
            wall_time.mark("compile")
        apply_plan.settle_in(session, _first_batch(prepared, session))
        if session.stepping.graphs:
            wall_time.mark("start")
            outcome = record(session, _first_batches(prepared, session))
            effects = apply_plan.after_warm_up(
                effects, session, outcome.failure, of="cuda-graphs", needless=outcome.needless
            )
            wall_time.mark("compile")
    except BaseException:
        apply_plan.undo(session)
        raise
    for row in effects:
        if position.step and row.word == "refused":
            text = f"{row.technique} is refused here: the resumed run may round otherwise"
            notify(Note(text=text, warning=True))
    return session, effects, position


def _compiled(prepared: PreparedRun, session: Session, effects: list[Effect]) -> list[Effect]:
    """Compile the model; return the effects. A compilation that nobody asked for must be faster."""
    failure, needless = None, compile_trial.left_out_before(session)
    if needless is None:
        others = _other_batches(prepared, session)
        failure = apply_plan.warm_up(session, _first_batch(prepared, session), others)
        if failure is None and prepared.decision.origins.get("compile") == "auto":
            needless = compile_trial.found_needless(session, _first_batches(prepared, session))
    return apply_plan.after_warm_up(effects, session, failure, needless=needless)


def _first_batch(prepared: PreparedRun, session: Session) -> Batch:
    return prepared.job.train.batch(0, 0, min(session.micro_batch, len(prepared.job.train)))


def _first_batches(prepared: PreparedRun, session: Session) -> list[Batch]:
    """Return the first micro batches of the run, a few."""
    position, batches = Position(), list[Batch]()
    while len(batches) < BATCHES and position.epoch == 0:
        batches += prepared.feed.window(position, session.micro_batch)
        position = prepared.feed.after(position)
    return batches[:BATCHES]


def _other_batches(prepared: PreparedRun, session: Session) -> list[Batch]:
    """Return an early micro batch of other sizes than the first, and the last one of an epoch."""
    feed, size = prepared.feed, session.micro_batch
    first, *rest = _first_batches(prepared, session)
    last = Position(sample=(feed.steps_per_epoch - 1) * feed.batch_size)
    return [
        max([first, *rest], key=lambda batch: abs(batch.tokens - first.tokens)),
        feed.window(last, size)[-1],
    ]


def _fell_back(run: RunDir, effects: list[Effect]) -> Callable[[str], None]:
    """Return a callback that corrects the effects in run.json if the compiled model is dropped."""

    def correct(text: str) -> None:
        rows = [
            replace(row, word="refused", how=text) if row.technique.startswith("compile") else row
            for row in effects
        ]
        run.update(effects=[to_json(row) for row in rows])

    return correct


def _drive(run: RunDir, prepared: PreparedRun, loop: Loop, position: Position) -> RunResult:
    """Run the loop and record how it ended, errors included; return the result."""
    wall_time = loop.wall_time
    wall_time.mark("start")
    try:
        with recompiling(wall_time) if "compile" in loop.session.undo else nullcontext():
            ending = loop.train(position)
    except DivergedError as error:
        _end(run, prepared, loop, "diverged", str(error))
        diverged = DivergedError(f"{error}; {loop.checkpoint_policy.safe}. {DIVERGED}")
        diverged.is_told = prepared.ranks.rank > 0  # all ranks have the same loss
        raise diverged from error
    except BaseException as error:
        _end(run, prepared, loop, "failed", _reason(error))
        if prepared.ranks.is_gone(error):
            why = "another process of the group is gone"
            if loop.signals.received is not None:
                why = "the ranks did not end together"
            raise LostRankError(
                f"{why}; {loop.checkpoint_policy.safe}. torchrun "
                f"--max-restarts 3 starts the group again by itself, or go on with as many "
                f"processes as you like: {run.resume_command}"
            ) from error
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            too_large = TOO_LARGE if prepared.ranks.world == 1 else TOO_LARGE_FOR_ALL
            raise DeviceError(
                f"out of memory with a micro batch of {loop.session.micro_batch}; "
                f"{loop.checkpoint_policy.safe}. {too_large} "
                "(hotloop explain out-of-memory)"
            ) from error
        raise
    run, done, position = (
        _found(run, loop),
        ending.reason in ("complete", "early stop"),
        ending.position,
    )
    final = {
        "step": position.step,
        "best_loss": position.best_loss,
        "best_step": position.best_step,
    }
    if position.best_score is not None:
        final["best_score"] = position.best_score
    status = "complete" if done else "stopped"
    rows = _end(run, prepared, loop, status, ending.reason, final=final)
    return RunResult(
        path=run.path,
        reason=ending.reason,
        exit_code=_exit_code(ending),
        step=position.step,
        best_loss=position.best_loss,
        best_score=position.best_score,
        best_step=position.best_step,
        wall=rows,
        resume_command=None if done else run.resume_command,
    )


def _found(run: RunDir, loop: Loop) -> RunDir:
    """Return the current location of the run folder, or the old one if it cannot be found."""
    try:
        return run.followed(loop.metrics_log.journal)
    except WriteError:
        return run


def _end(
    run: RunDir, prepared: PreparedRun, loop: Loop, status: str, reason: str, **fields: object
) -> dict[str, float]:
    """Write the end to the log and the record; return the wall time in seconds by row."""
    loop.wall_time.mark("other")
    rows = {name: round(seconds, 4) for name, seconds in loop.wall_time.rows().items()}
    loop.metrics_log.event("end", loop.checkpoint_policy.last_step, reason=reason, wall=rows)
    if not (there := _found(run, loop)).exists and prepared.ranks.rank == 0:
        return rows  # the folder is gone: the error that ends the run says so
    _note_down(there, prepared, status=status, reason=reason, **fields)
    return rows


def _exit_code(ending: Ending) -> int:
    if ending.reason == "signal":
        assert ending.signal is not None
        return 128 + ending.signal
    return TIME_LIMIT if ending.reason == "time limit" else 0
