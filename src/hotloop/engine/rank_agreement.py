"""Makes all ranks decide alike, in the exchange of each window's targets: one per step.

Decisions that depend on the clock are those of rank 0. A decision takes effect after the step in
flight, so a signal ends a run of several ranks one step later than a run of a single process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.engine.signals import Dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.session.batch import Batch
    from hotloop.session.ranks import ProcessGroup

__all__ = ["Now", "RankAgreement", "Share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The conditions that, besides its position, decide how the loop goes on."""

    signal: int | None = None  # the newest that any rank received
    out_of_time: bool = False
    save_due: bool = False  # because of the time or SIGUSR1
    best_due: bool = False  # the last save is long enough ago to write a new best
    copies: bool = True  # there is memory for a copy of the state on every rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The samples, tokens and targets of those batches of a window that count."""

    targets: int
    samples: int
    tokens: int

    @classmethod
    def of(cls, window: Sequence[Batch]) -> Share:
        """Return the sums over a window on this rank."""
        counted = [batch for batch in window if batch.counts]
        return cls(
            targets=sum(batch.targets for batch in counted),
            samples=sum(batch.samples for batch in counted),
            tokens=sum(batch.tokens for batch in counted),
        )


class RankAgreement:
    """Exchanges conditions with the other ranks; a single process reads its own at any time."""

    def __init__(self, ranks: ProcessGroup, look: Callable[[], Now]) -> None:
        """`look` returns the current conditions of this rank."""
        self._ranks, self._look = ranks, look
        self._agreed = Now()

    def now(self) -> Now:
        """Return the conditions that all ranks agreed on last."""
        return self._look() if self._ranks.world == 1 else self._agreed

    def window(self, own: Share) -> Share:
        """Return the sums over the windows of all ranks, and agree on how to go on after them."""
        if self._ranks.world == 1:
            return own
        mine = self._look()
        decides = (mine.signal or 0, mine.out_of_time, mine.save_due, mine.best_due, mine.copies)
        answers = self._ranks.gather([own.targets, own.samples, own.tokens, *decides])
        targets, samples, tokens, *decided = zip(*answers, strict=True)
        signals, out_of_time, save_due, best_due, copies = decided
        self._agreed = Now(
            signal=int(max(signals)) or None,
            out_of_time=bool(out_of_time[0]),
            save_due=bool(save_due[0]),
            best_due=bool(best_due[0]),
            copies=all(copies),
        )
        return Share(targets=int(sum(targets)), samples=int(sum(samples)), tokens=int(sum(tokens)))

    def poll(self) -> None:
        """Raise Dropped on every rank if one has received a signal; used during an evaluation."""
        signals = self._ranks.gather([self._look().signal or 0])
        if signal := int(max(max(signals))):
            self._agreed = Now(signal=signal)
            raise Dropped
