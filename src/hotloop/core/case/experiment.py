"""An experiment of the doctor: steps of the script with one cost taken away, beside plain ones."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

__all__ = ["BUDGET", "MANY", "NO_GAIN", "Experiment"]

BUDGET = 10.0  # seconds of timed steps for all experiments on a script
MANY = 10  # blocks from which the range is that of the deciles
NO_GAIN = 1.03  # gain below which a cost is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The result of one experiment. Without a gain it says why there is none."""

    name: str  # "ready batches", "lines", "no logging", "threads", "fused optimizer", …
    what: str  # what was changed, as a phrase: "with batches that lie ready"
    row: str | None = None  # the row of the ledger that it takes away
    places: tuple[SourceLocation, ...] = ()  # the lines whose results were kept, the largest first
    count: int | None = None  # of threads; of calls made as one; the width of rows that are cut
    # Cut rows: the share of their positions that is kept. Joined batches: the share of a step that
    # stays as it is, such as reading data and the update.
    fraction: float = 0.0
    rewrites: tuple[Rewrite, ...] = ()  # whose two forms were timed apart from the script
    blocks: int = 0  # of steps with the change, each beside plain ones
    steps: int = 0  # timed with the change; of rewrites: plain ones, between which they were timed
    gain: float | None = None  # time of a plain step / of a changed step, the median of all blocks
    low: float | None = None  # smallest of few blocks, first decile of many
    high: float | None = None
    proof: str | None = None  # what showed that the training does not depend on it
    why_not: str | None = None  # why there is no gain
    losses: tuple[float, float] | None = None  # of one batch again and again, at first and at last
    is_refused: bool = False  # the script's model does not take the change
    is_needed: bool = False  # what it would leave out was seen to be needed

    def with_gains(self, gains: Sequence[float]) -> "Experiment":
        """Return it with the gains of its blocks."""
        low, high = min(gains), max(gains)
        if len(gains) >= MANY:
            low, *_, high = statistics.quantiles(gains, n=10)
        gain = statistics.median(gains)
        return replace(self, gain=gain, low=low, high=high, blocks=len(gains))

    @property
    def share(self) -> float | None:
        """Return the share of a step's time that the change takes away; None if not measured."""
        return None if self.gain is None else 1 - 1 / self.gain

    @property
    def sure(self) -> float:
        """Return the gain that is certain, 1 for none: the smallest, or that of half its distance.

        The latter is about the lower limit of the median where blocks are many.
        """
        if self.gain is None:
            return 1.0
        low = self.gain if self.low is None else self.low
        return max(1.0, (self.gain + low) / 2 if self.blocks >= MANY else low)

    @property
    def outcome(self) -> Literal["gain", "no gain", "unknown"]:
        """Say what the experiment showed: blocks that differ too much show nothing."""
        if self.gain is None:
            return "unknown"
        if self.gain >= NO_GAIN:
            return "gain" if self.low is None or self.low >= 1 else "unknown"
        # Half of the way to the last decile: about the upper limit of the median of 12 blocks.
        return "no gain" if (self.gain + (self.high or self.gain)) / 2 < NO_GAIN else "unknown"
