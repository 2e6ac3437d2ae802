"""An experiment of the doctor: steps of the script with one cost taken away, beside plain ones."""

from dataclasses import dataclass

from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

__all__ = ["BUDGET", "Experiment"]

BUDGET = 10.0  # seconds of timed steps for all experiments on a script


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The result of one experiment. Without a gain it says why there is none."""

    name: str  # "ready batches", "lines", "no logging", "threads", "fused optimizer", …
    what: str  # what was changed, as a phrase: "with batches that lie ready"
    row: str | None = None  # the row of the ledger that it takes away
    places: tuple[SourceLocation, ...] = ()  # the lines whose results were kept, the largest first
    count: int | None = None  # of threads
    rewrites: tuple[Rewrite, ...] = ()  # whose two forms were timed apart from the script
    steps: int = 0  # timed with the change; of rewrites: plain ones, between which they were timed
    gain: float | None = None  # time of a plain step / of a changed step, the median of all blocks
    low: float | None = None  # smallest of few blocks, first decile of many
    high: float | None = None
    proof: str | None = None  # what showed that the training does not depend on it
    why_not: str | None = None  # why there is no gain

    @property
    def share(self) -> float | None:
        """Return the share of a step's time that the change takes away; None if not measured."""
        return None if self.gain is None else 1 - 1 / self.gain
