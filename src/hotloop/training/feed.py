"""Which samples the next optimizer step takes: a pure function of the position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.session import evenly

if TYPE_CHECKING:
    from hotloop.session import Batch, Cut, Samples

__all__ = ["Feed", "Position"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a run is. A position in the data is a number of samples."""

    step: int = 0  # completed optimizer steps
    epoch: int = 0
    sample: int = 0  # samples of this epoch that were used
    evaluated: int = 0  # step of the newest completed validation
    best_loss: float | None = None  # validation loss of the best model
    best_score: float | None = None  # what the job's judge says of it
    best_step: int | None = None
    reference: float | None = None  # the loss, or minus the score, to be beaten
    stale: int = 0  # validations since it was beaten by min_delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Cuts epochs into windows (one optimizer step each) of micro batches."""

    samples: Samples
    batch_size: int  # samples of one optimizer step
    drop_last: bool
    cut: Cut = evenly  # of a window into micro batches

    @property
    def per_epoch(self) -> int:
        """Samples used of one epoch."""
        n = len(self.samples)
        return n - n % self.batch_size if self.drop_last else n

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of one epoch; a ragged last window is a step."""
        return -(-self.per_epoch // self.batch_size)

    def span(self, at: Position) -> tuple[int, int]:
        """Return (first sample, count) of the window at a position."""
        left = self.per_epoch - at.sample
        return at.sample, self.batch_size if left > self.batch_size else left

    def micro_batches(self, at: Position, micro_batch: int) -> list[tuple[int, int]]:
        """Return (first sample, count) of the micro batches of the window at a position."""
        first, count = self.span(at)
        if count <= micro_batch:
            return [(first, count)]
        return self.cut(self.samples, at.epoch, first, count, micro_batch)

    def window(self, at: Position, micro_batch: int) -> list[Batch]:
        """Return the micro batches of the next optimizer step."""
        return [
            self.samples.batch(at.epoch, first, count)
            for first, count in self.micro_batches(at, micro_batch)
        ]

    def after(self, at: Position) -> Position:
        """Return the position once the window at `at` has been stepped."""
        first, count = self.span(at)
        whole = first + count >= self.per_epoch
        return Position(  # written out: dataclasses.replace takes three times as long
            step=at.step + 1,
            epoch=at.epoch + whole,
            sample=0 if whole else first + count,
            evaluated=at.evaluated,
            best_loss=at.best_loss,
            best_score=at.best_score,
            best_step=at.best_step,
            reference=at.reference,
            stale=at.stale,
        )
