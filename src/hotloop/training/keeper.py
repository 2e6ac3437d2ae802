"""When to save and what to keep: a run that cannot be lost, at a cost that is accounted for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hotloop.core.errors import WriteError
from hotloop.training import checkpoint, store
from hotloop.training.background import Background
from hotloop.training.messages import Note, Saved
from hotloop.training.step import is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.files import Disk
    from hotloop.core.rundir import RunDir
    from hotloop.session import Session
    from hotloop.training.checkpoint import Identity, Snapshot
    from hotloop.training.feed import Position
    from hotloop.training.ledger import Ledger
    from hotloop.training.messages import Tell
    from hotloop.training.recorder import Recorder

__all__ = ["Keeper", "SavePolicy"]

BEST_BUDGET = 0.05  # of the wall time: a new best is saved at once while saving costs less


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePolicy:
    """How often to save, besides after step 1 and at the end."""

    every_steps: int | None
    every_seconds: float | None
    keep: int  # newest sound checkpoints that stay, besides the best
    every_best: bool  # whether each new best is saved whatever it costs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one save."""

    step: int
    bytes: int  # 0 when nothing was written
    seconds: float  # from the snapshot until it was durable
    error: WriteError | None


class Keeper:
    """Saves checkpoints of one run and removes old ones."""

    def __init__(
        self,
        *,
        run: RunDir,
        session: Session,
        identity: Identity,
        policy: SavePolicy,
        ledger: Ledger,
        recorder: Recorder,
        tell: Tell,
        disk: Disk,
        last_step: int,
    ) -> None:
        self._run, self._session, self._identity = run, session, identity
        self._policy, self._ledger, self._recorder = policy, ledger, recorder
        self._tell, self._disk = tell, disk
        self.last_step = last_step  # newest durable checkpoint; 0: none yet
        self.seconds = 0.0  # the newest save took
        self._tried, self._last_time = last_step, ledger.elapsed()
        self._postponed = False  # whether it was said that a best one was not saved at once
        self._background: Background[_Outcome] | None = None
        if session.background_saves:
            self._background = Background()

    def due(self, at: Position) -> bool:
        """Whether the run should save now, at a step not tried yet."""
        self._settle(wait=False)
        if at.step == self._tried:
            return False
        policy = self._policy
        if at.step == 1 or (policy.every_steps and at.step % policy.every_steps == 0):
            return True
        now = self._ledger.elapsed()
        if policy.every_seconds is not None and now - self._last_time >= policy.every_seconds:
            return True
        return at.best_step == at.step and self._affords_best(at, now)

    def _affords_best(self, at: Position, now: float) -> bool:
        """Whether a new best is saved at once: always with early stopping, else within a budget."""
        cheap = self._ledger.rows()["save"] + self.seconds <= BEST_BUDGET * now
        if cheap or self._policy.every_best:
            return True
        if not self._postponed:
            text = (
                f"the best validation so far, at step {at.step}, is not saved: saving has taken "
                f"over {BEST_BUDGET:.0%} of the time; set training.save_every_steps to save there"
            )
            self._tell(Note(text=text))
        self._postponed = True
        return False

    def save(self, at: Position, *, must: bool = False) -> None:
        """Save a position and drop what retention allows.

        A save that fails is told and training goes on with the older ones. With `must` the
        checkpoint is durable on return, or the WriteError is raised.
        """
        began = self._ledger.elapsed()
        self._settle(wait=True)
        if at.step == self.last_step:
            return
        self._recorder.flush(sync=True)  # the log never lags behind a checkpoint
        self._tried, self._last_time = at.step, self._ledger.elapsed()
        loss = at.best_loss if at.best_step == at.step else None
        snapshot = checkpoint.take(self._session, at, self._identity, validation_loss=loss)
        write = partial(self._write, best_step=at.best_step, began=self._last_time)
        if self._background is not None and not self._started(snapshot, write):
            self._background = None
        if self._background is None:
            self._finish(write(snapshot), must=must)
            return
        self._ledger.mark("save")
        self.seconds = self._ledger.elapsed() - began  # what the loop waited
        if must:
            self._settle(wait=True, must=True)

    def _started(self, snapshot: Snapshot, write: Callable[[Snapshot], _Outcome]) -> bool:
        """Hand a copy to the thread; False, and told, when there is no memory for one."""
        assert self._background is not None
        try:
            self._background.start(snapshot, write)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self._background.close()
            text = "no memory for a copy of the state: checkpoints are written at once from now on"
            self._tell(Note(text=text, warning=True))
            return False
        return True

    def close(self) -> None:
        """Wait for the checkpoint in flight."""
        if self._background is not None:
            self._settle(wait=True)
            self._background.close()

    def _write(self, snapshot: Snapshot, *, best_step: int | None, began: float) -> _Outcome:
        """Make a snapshot last, possibly in a thread: nothing here is told or logged."""
        size, error = 0, None
        try:
            size = checkpoint.write(self._run.checkpoints, snapshot, disk=self._disk)
            store.retain(self._run.checkpoints, keep=self._policy.keep, best_step=best_step)
        except WriteError as failed:
            error = failed
        seconds = self._ledger.elapsed() - began
        return _Outcome(step=snapshot.step, bytes=size, seconds=seconds, error=error)

    def _settle(self, *, wait: bool, must: bool = False) -> None:
        """Take in what the write in flight came to."""
        if self._background is None:
            return
        if (outcome := self._background.take(wait=wait)) is not None:
            self._finish(outcome, must=must)

    def _finish(self, outcome: _Outcome, *, must: bool) -> None:
        """Log and tell what became of a save."""
        waited = self._ledger.mark("save")
        if outcome.bytes:  # it is there, even when an old one could not be removed
            self.last_step = outcome.step
        if outcome.error is not None:
            self._recorder.event("note", outcome.step, text=f"save failed: {outcome.error}")
            if must:
                raise outcome.error
            text = f"{outcome.error} (training goes on; {self.safe})"
            self._tell(Note(text=text, warning=True))
            return
        if self._background is None:
            self.seconds = waited
        self._recorder.event(
            "save",
            outcome.step,
            wall=round(self.seconds, 4),
            durable=round(outcome.seconds, 4),
            bytes=outcome.bytes,
        )
        self._tell(Saved(step=outcome.step, bytes=outcome.bytes, seconds=outcome.seconds))

    @property
    def safe(self) -> str:
        """What is safe, for messages."""
        if not self.last_step:
            return "no checkpoint yet"
        return f"last good checkpoint: step {self.last_step}"
