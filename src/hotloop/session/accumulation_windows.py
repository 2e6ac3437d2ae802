"""The samples of the next optimizer step, as a pure function of the position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotloop.session.batch import evenly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.session.batch import Batch, MicroBatchCut, Samples

__all__ = ["AccumulationWindows", "Place", "Position", "batch_at", "dealt"]

# Epoch, first sample, count; a count of 0 only keeps ranks in step.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The progress of a run. A position in the data is a number of samples."""

    step: int = 0  # completed optimizer steps
    epoch: int = 0
    sample: int = 0  # samples of this epoch that were used
    evaluated: int = 0  # step of the newest completed validation
    best_loss: float | None = None  # validation loss of the best model
    best_score: float | None = None  # its score by the job's metrics
    best_step: int | None = None
    reference: float | None = None  # the loss, or the negative score, to beat
    stale: int = 0  # validations since it was last beaten by min_delta


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulationWindows:
    """Cuts epochs into windows (one optimizer step each) of micro batches."""

    samples: Samples
    batch_size: int  # samples of one optimizer step
    drop_last: bool
    cut: MicroBatchCut = evenly  # of a window into micro batches
    rank: int = 0  # of `ranks` processes, which share the micro batches of a window
    ranks: int = 1

    @property
    def per_epoch(self) -> int:
        """Return the samples that are used in one epoch."""
        n = len(self.samples)
        return n - n % self.batch_size if self.drop_last else n

    @property
    def steps_per_epoch(self) -> int:
        """Return the optimizer steps of one epoch; an incomplete last window is a step."""
        return -(-self.per_epoch // self.batch_size)

    def span(self, position: Position) -> tuple[int, int]:
        """Return (first sample, count) of the window at a position."""
        remaining = self.per_epoch - position.sample
        return position.sample, self.batch_size if remaining > self.batch_size else remaining

    def micro_batches(self, position: Position, micro_batch: int) -> list[tuple[int, int]]:
        """Return (first sample, count) of this rank's micro batches of the window at a position.

        Every rank has the same number; a count of 0 means that another rank has one more.
        """
        first, count = self.span(position)
        if count <= micro_batch:
            pieces = [(first, count)]
        else:
            pieces = self.cut(self.samples, position.epoch, first, count, micro_batch)
        return dealt(pieces, self.ranks)[self.rank]

    def taken(self, position: Position, micro_batch: int) -> Sequence[tuple[int, int]]:
        """Return (first sample, count) of the runs of samples in this rank's window.

        A single one with a count of 0 if other ranks have all samples of the window.
        """
        if self.ranks == 1:
            return [self.span(position)]
        pieces = self.micro_batches(position, micro_batch)
        return [piece for piece in pieces if piece[1]] or pieces[:1]

    def window(self, position: Position, micro_batch: int) -> list[Batch]:
        """Return this rank's micro batches of the next optimizer step."""
        return [
            batch_at(self.samples, (position.epoch, first, count))
            for first, count in self.micro_batches(position, micro_batch)
        ]

    def after(self, position: Position) -> Position:
        """Return the position after the step of the window at `position`."""
        first, count = self.span(position)
        whole = first + count >= self.per_epoch
        return Position(  # written out: dataclasses.replace takes three times as long
            step=position.step + 1,
            epoch=position.epoch + whole,
            sample=0 if whole else first + count,
            evaluated=position.evaluated,
            best_loss=position.best_loss,
            best_score=position.best_score,
            best_step=position.best_step,
            reference=position.reference,
            stale=position.stale,
        )


def batch_at(samples: Samples, place: Place) -> Batch:
    """Return the batch at a place; for a count of 0, a batch of one sample that does not count."""
    epoch, first, count = place
    if count:
        return samples.batch(epoch, first, count)
    return replace(samples.batch(epoch, first, 1), counts=False)


def dealt(pieces: Sequence[tuple[int, int]], ranks: int) -> list[list[tuple[int, int]]]:
    """Return each rank's micro batches of a window, the same number for all ranks.

    Pieces are (first sample, count). If their number is not a multiple of `ranks`, the largest ones
    are split, and counts of 0 are added if there are fewer samples than ranks. Pieces are dealt in
    alternating order, so that with rows sorted by length no rank gets all the long ones.
    """
    if ranks == 1:
        return [list(pieces)]
    cut = list(pieces)
    while len(cut) % ranks:
        index, (first, count) = max(enumerate(cut), key=lambda piece: piece[1][1])
        if count < 2:
            cut += [(first, 0)] * (-len(cut) % ranks)
            break
        half = (count + 1) // 2
        cut[index : index + 1] = [(first, half), (first + half, count - half)]
    rounds = [cut[start : start + ranks] for start in range(0, len(cut), ranks)]
    turns = [
        pieces_of_round if turn % 2 == 0 else pieces_of_round[::-1]
        for turn, pieces_of_round in enumerate(rounds)
    ]
    return [[turn[rank] for turn in turns] for rank in range(ranks)]
