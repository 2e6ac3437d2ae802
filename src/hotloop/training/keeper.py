"""When to save and what to keep: a run that cannot be lost, at a cost that is accounted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.errors import WriteError
from hotloop.training import checkpoint, store
from hotloop.training.messages import Note, Saved

if TYPE_CHECKING:
    from hotloop.core.files import Disk
    from hotloop.core.rundir import RunDir
    from hotloop.session import Session
    from hotloop.training.checkpoint import Identity
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

    def due(self, at: Position) -> bool:
        """Whether the run should save now, at a step not tried yet."""
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

        A save that fails is told and training goes on with the older ones; with `must`, the
        WriteError is raised.
        """
        if at.step == self.last_step:
            return
        self._recorder.flush(sync=True)  # the log never lags behind a checkpoint
        self._tried, self._last_time = at.step, self._ledger.elapsed()
        loss = at.best_loss if at.best_step == at.step else None
        try:
            stored = checkpoint.save(
                self._run.checkpoints,
                self._session,
                at,
                self._identity,
                validation_loss=loss,
                disk=self._disk,
            )
            self.last_step = at.step
            store.retain(self._run.checkpoints, keep=self._policy.keep, best_step=at.best_step)
        except WriteError as error:
            self._ledger.mark("save")
            self._recorder.event("note", at.step, text=f"save failed: {error}")
            if must:
                raise
            self._tell(Note(text=f"{error} (training goes on; {self.safe})", warning=True))
            return
        self.seconds = self._ledger.mark("save")
        self._recorder.event("save", at.step, wall=round(self.seconds, 4), bytes=stored.bytes)
        self._tell(Saved(step=at.step, bytes=stored.bytes or 0, seconds=self.seconds))

    @property
    def safe(self) -> str:
        """What is safe, for messages."""
        if not self.last_step:
            return "no checkpoint yet"
        return f"last good checkpoint: step {self.last_step}"
