"""What a preflight check looks at: a run as far as it is known before it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.core.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.effect import Effect
    from hotloop.jobs.forecast.time_estimate import Estimate, Timing
    from hotloop.jobs.job import PreparedRun

__all__ = ["Check", "PlannedRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run and its rehearsal. Without a timing there is no estimate either."""

    parts: PreparedRun
    effects: Sequence[Effect]
    timing: Timing | None  # None: nothing could be timed
    time: Estimate | None
    free_bytes: int  # of the disk where the run folder would be
    problem: str | None = None  # why a step of the rehearsal could not be made
    halved: str | None = None  # what an out of memory made of the micro batch
    busy_cores: float = 0.0  # that other processes used meanwhile
    unwritable: str | None = None  # why no checkpoint could be written there

    @property
    def training(self) -> Any:
        """Return the training section of the configuration."""
        return self.parts.request.config.training

    @property
    def epochs(self) -> float:
        """Return how often the run reads the training data."""
        return self.parts.steps / self.parts.feed.steps_per_epoch


Check = Callable[[PlannedRun], Finding | None]  # None: nothing to say
