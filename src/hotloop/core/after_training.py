"""Tells what comes once after training from what comes again and again in it."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["beyond_usual"]

_FEWEST = 2  # stops that show what is usual


def beyond_usual(spans: Iterable[tuple[int, float]], steps: int) -> float:
    """Return the seconds after the last step beyond those of a usual stop before it.

    Each span has the steps made before it, and its seconds. An evaluation after the last step may
    be one of many; a test set, or a game that is played with the trained model, comes once. With
    fewer than two stops before, but for what comes before the first step, nothing is known.
    """
    by_step: dict[int, float] = defaultdict(float)
    for step, seconds in spans:
        by_step[step] += seconds
    by_step.pop(0, None)  # a short look before training is no usual stop
    last = by_step.pop(steps, 0.0)
    return max(0.0, last - fmean(by_step.values())) if len(by_step) >= _FEWEST else 0.0
