"""Finds the largest batch that fits on a card; each batch that is named was run.

Reserved memory grows with the batch almost on a line. The line through the two largest batches that
fit says which one to run next; a run that is out of memory bounds it from above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop.core.case.rehearsal import BatchTrial, LargestBatch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["largest_batch"]

CLOSE: Final = 0.05  # of the batch: smaller differences of it hardly change the speed
MOST: Final = 12  # runs
_REACH: Final = 16  # times the largest batch: a line drawn further from two points is far off


def largest_batch(
    first: BatchTrial,
    attempt: Callable[[int], BatchTrial],
    *,
    memory: int,
    rows: int | None = None,
) -> LargestBatch:
    """Return the largest batch that fits into `memory` bytes, and the runs that prove it.

    `first` is the run with the script's own batch; `attempt(batch)` runs another one.
    `rows` are those of the data set, if known: no batch has more.
    """
    trials = [first]
    why = first.why_not
    while why is None and len(trials) <= MOST:
        batch = _next(trials, memory, rows)
        if batch is None:
            break
        trial = attempt(batch)
        trials.append(trial)
        why = trial.why_not
    fits = max((one.batch for one in trials if one.fits), default=None)
    fails = min((one.batch for one in trials if one.fits is False), default=None)
    if fits is not None and fits == rows:
        why = f"the data set has only {rows:,} rows"
    return LargestBatch(memory=memory, fits=fits, fails=fails, trials=tuple(trials), why_not=why)


def _next(trials: list[BatchTrial], memory: int, rows: int | None) -> int | None:
    """Return the batch to run next; None if the largest one is known closely enough."""
    fitting = sorted((one for one in trials if one.fits), key=lambda one: one.batch)
    fails = min((one.batch for one in trials if one.fits is False), default=None)
    if not fitting:
        return fails // 2 if fails is not None and fails > 1 else None
    largest = fitting[-1].batch
    apart = max(1, int(CLOSE * largest))
    if fails is not None and fails - largest <= apart:
        return None
    guess = _on_line(fitting, memory) if len(fitting) > 1 else 2 * largest
    if guess <= largest:  # the line says that no more fits: prove it
        guess = largest + apart
    if fails is not None and guess > fails - apart:  # the run would tell little
        guess = (largest + fails) // 2
    guess = guess if rows is None else min(guess, rows)
    return guess if guess > largest else None


def _on_line(fitting: list[BatchTrial], memory: int) -> int:
    """Return the batch at which the line through the two largest batches meets the memory."""
    below, above = fitting[-2:]
    slope = (above.peak_reserved - below.peak_reserved) / (above.batch - below.batch)
    if slope <= 0:
        return 2 * above.batch
    on_line = above.batch + int((memory - above.peak_reserved) / slope)
    return min(on_line, _REACH * above.batch)
