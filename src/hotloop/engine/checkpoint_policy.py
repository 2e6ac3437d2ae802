"""Decides when to save checkpoints and which ones to keep, and accounts for the cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from hotloop.core.errors import HotloopError, LostRankError, WriteError
from hotloop.core.progress import CheckpointSaved, Note
from hotloop.core.units import duration
from hotloop.engine.checkpoint import folders, state
from hotloop.engine.checkpoint.background_writer import Background
from hotloop.engine.step import is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.progress import Notify
    from hotloop.core.storage.files import Disk
    from hotloop.core.storage.rundir import RunDir
    from hotloop.engine.checkpoint.state import Identity, Snapshot
    from hotloop.engine.metrics_log import MetricsLog
    from hotloop.engine.rank_agreement import Now
    from hotloop.engine.wall_time import WallTime
    from hotloop.session.accumulation_windows import Position
    from hotloop.session.session import Session

__all__ = ["CheckpointPolicy", "SavePolicy"]

# Share of the time since the last save that saving a new best may take. A tenth would be felt if
# every validation is a new best; with a hundredth, a killed process could lose the bests of a
# period 100 times as long as a save.
BEST_BUDGET = 0.05
LONG_COOLDOWN = 60.0  # seconds; from this cooldown on, the user is told of a waiting best


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePolicy:
    """How often to save, besides after step 1 and at the end."""

    every_steps: int | None
    every_seconds: float | None
    keep: int  # newest sound checkpoints to keep, besides the best
    best_cooldown: float | None  # seconds from a save to the next best; None: by BEST_BUDGET


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The outcome of one save."""

    step: int
    bytes: int  # 0 when nothing was written
    seconds: float  # from the snapshot until it was durable
    error: HotloopError | None


class CheckpointPolicy:
    """Saves checkpoints of one run and removes old ones.

    A new best is saved at once if the last save is long enough ago. Otherwise a copy waits in
    memory, and is written after the cooldown, before the next checkpoint, or at the end.
    """

    def __init__(
        self,
        *,
        run: RunDir,
        session: Session,
        identity: Identity,
        policy: SavePolicy,
        wall_time: WallTime,
        metrics_log: MetricsLog,
        notify: Notify,
        disk: Disk,
        last_step: int,
        beside: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._run, self._session, self._identity = run, session, identity
        self.policy, self._wall_time, self._metrics_log = policy, wall_time, metrics_log
        self._notify, self._disk, self._beside = notify, disk, beside
        self.last_step = last_step  # newest durable checkpoint; 0: none yet
        self.seconds = 0.0  # that the newest save took from the loop
        self.durable: float | None = None  # seconds until the newest save was durable
        self._tried, self._last_time = last_step, wall_time.elapsed()
        self._background: Background[_Outcome] = Background()  # also holds a waiting best
        self.is_beside = session.stepping.background_saves  # whether a thread writes
        self.copies = True  # whether there is memory for a copy of the state
        self._held: Snapshot | None = None  # the best so far, not yet saved
        self._told = False  # whether the user was told that one waits

    def visit(self, position: Position, now: Now) -> None:
        """Save a checkpoint that is due at a position; hold a new best that is not due yet."""
        if self._session.parallel.group.world == 1 or self._metrics_log.has_read:
            self._settle(wait=False)  # reads losses: no rank may see a bad step before the others
        if position.step == self._tried:
            return
        if self._session.parallel.group.world > 1 and not now.copies:
            self._held = None  # another rank may have no copy of it
        held, is_best = self._held, position.best_step == position.step
        if self._due(position) or now.save_due or (is_best and (now.best_due or not now.copies)):
            self.save(position)
        elif is_best and (held is None or held.step != position.step):
            self._hold(position)
        elif held is not None and now.best_due:
            self._settle(wait=True)  # rank 0 may have finished its write earlier
            self._metrics_log.flush(sync=True)
            self._start(held, best_step=held.step)
            self._held = None

    def _due(self, position: Position) -> bool:
        """Whether the run should save here, whatever its validation and the clock say."""
        every = self.policy.every_steps
        return position.step == 1 or bool(every and position.step % every == 0)

    @property
    def is_overdue(self) -> bool:
        """Whether the last save is at least `every_seconds` ago."""
        every = self.policy.every_seconds
        return every is not None and self._wall_time.elapsed() - self._last_time >= every

    @property
    def _cooldown(self) -> float:
        """Return the seconds from a save to the next save of a new best."""
        if (fixed := self.policy.best_cooldown) is not None:
            return fixed
        return max(self.seconds, self.durable or 0.0) / BEST_BUDGET

    @property
    def has_cooled(self) -> bool:
        """Whether a new best may be written: the cooldown is over, no write is in flight."""
        is_over = self._wall_time.elapsed() - self._last_time >= self._cooldown
        return is_over and not self._background.is_busy

    def save(self, position: Position, *, must: bool = False) -> None:
        """Save a position, after a waiting best that it names, and remove old checkpoints.

        If a save fails, the user is told, and training goes on with the older checkpoints. With
        `must`, the checkpoint is durable on return, or WriteError or LostRankError is raised.
        """
        began = self._wall_time.elapsed()
        self._settle(wait=True)
        if self._held is not None and self._held.step == position.best_step:
            self._write_held()  # a checkpoint that names its best must not exist without it
        self._held = None
        if position.step == self.last_step:
            return
        self._metrics_log.flush(sync=True)  # the log never lags behind a checkpoint
        self._tried = position.step
        self._start(self._snapshot(position), best_step=position.best_step, must=must)
        if self._background.is_busy:
            self._wall_time.mark("save")
            self.seconds = self._wall_time.elapsed() - began  # that the loop waited
        if must:
            self._settle(wait=True, must=True)

    def _snapshot(self, position: Position) -> Snapshot:
        loss = position.best_loss if position.best_step == position.step else None
        return state.take(
            self._session, position, self._identity, validation_loss=loss, beside=self._beside
        )

    def _start(
        self,
        snapshot: Snapshot,
        *,
        best_step: int | None,
        must: bool = False,
        at_once: bool = False,
    ) -> None:
        """Write a snapshot, in the thread from a copy or else at once."""
        self._last_time = self._wall_time.elapsed()
        if (error := self._followed()) is not None:
            gone = _Outcome(step=snapshot.step, bytes=0, seconds=0.0, error=error)
            self._finish(gone, must=must)
            return
        write = partial(self._write, best_step=best_step, began=self._last_time)
        copy = self._copied(snapshot) if self.is_beside and not at_once else None
        if copy is None:
            self._background.wait()  # a best that was held may be the newest copy
            self._finish(write(snapshot), must=must)
        else:
            self._background.start_copied(copy, write)

    def _followed(self) -> WriteError | None:
        """Find the run folder again if it was moved; return the error if it cannot be found."""
        try:
            now = self._run.followed(self._metrics_log.journal)
        except WriteError as error:
            return error
        if now != self._run:
            text = f"the run folder was moved to {now.path}: what is saved goes there"
            self._notify(Note(text=text, warning=True))
            self._run = now
        return None

    def _copied(self, snapshot: Snapshot) -> Snapshot | None:
        """Return a copy; if there is no memory for one, tell the user and return None."""
        if snapshot is self._held:
            return snapshot
        try:
            return self._background.copied(snapshot)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        self.is_beside = self.copies = False
        text = "no memory for a copy of the state: checkpoints are written at once from now on"
        self._notify(Note(text=text, warning=True))
        return None

    def _hold(self, position: Position) -> None:
        """Copy a new best; without memory for a copy, a single process saves it at once."""
        self._settle(wait=True)
        self._held = self._copied(self._snapshot(position))
        self._wall_time.mark("save")
        if self._held is None:
            if self._session.parallel.group.world == 1:  # other ranks would not join the save
                self.save(position)
        elif not self._told and self._cooldown >= LONG_COOLDOWN:
            text = (
                f"the best validation so far, at step {position.step}, waits in memory: new bests "
                f"are written {duration(self._cooldown)} apart (training.best_cooldown), and "
                "at the end"
            )
            self._notify(Note(text=text))
            self._told = True

    def _write_held(self) -> None:
        held, self._held = self._held, None
        assert held is not None
        self._metrics_log.flush(sync=True)
        self._start(held, best_step=held.step, at_once=True)

    def before_update(self) -> None:
        """Order the update behind the copies of the state that it changes."""
        self._background.order_update()

    def abandon(self) -> None:
        """Drop a waiting best: other ranks are gone, and a checkpoint needs all of them."""
        self._held = None

    def close(self) -> None:
        """Wait for the checkpoint in flight, write a waiting best, and end the thread."""
        self._settle(wait=True)
        if self._held is not None:
            self._write_held()
        self._background.close()

    def _write(self, snapshot: Snapshot, *, best_step: int | None, began: float) -> _Outcome:
        """Write a snapshot durably, possibly in a thread; nothing here is reported or logged."""
        size, error = 0, None
        try:
            ranks = self._session.parallel.group
            size = state.write(self._run.checkpoints, snapshot, disk=self._disk, ranks=ranks)
            if ranks.rank == 0:
                folders.retain(self._run.checkpoints, keep=self.policy.keep, best_step=best_step)
        except (WriteError, LostRankError) as failed:
            error = failed
        seconds = self._wall_time.elapsed() - began
        return _Outcome(step=snapshot.step, bytes=size, seconds=seconds, error=error)

    def _settle(self, *, wait: bool, must: bool = False) -> None:
        """Process the outcome of the write in flight, if there is one."""
        if (outcome := self._background.take(wait=wait)) is not None:
            self._finish(outcome, must=must)

    def _finish(self, outcome: _Outcome, *, must: bool) -> None:
        """Log and report the outcome of a save."""
        waited = self._wall_time.mark("save")
        if outcome.bytes:  # it exists, even if an old one could not be removed
            self.last_step = outcome.step
        if outcome.error is not None:
            self._metrics_log.event("note", outcome.step, text=f"save failed: {outcome.error}")
            if must:
                raise outcome.error
            text = f"{outcome.error} (training goes on; {self.safe})"
            self._notify(Note(text=text, warning=True))
            return
        if not self.is_beside:
            self.seconds = waited
        self.durable = outcome.seconds
        self._metrics_log.event(
            "save",
            outcome.step,
            wall=round(self.seconds, 4),
            durable=round(outcome.seconds, 4),
            bytes=outcome.bytes,
        )
        self._notify(
            CheckpointSaved(step=outcome.step, bytes=outcome.bytes, seconds=outcome.seconds)
        )

    @property
    def safe(self) -> str:
        """Return a phrase on the newest durable checkpoint, for messages."""
        if not self.last_step:
            return "no checkpoint yet"
        return f"last good checkpoint: step {self.last_step}"
