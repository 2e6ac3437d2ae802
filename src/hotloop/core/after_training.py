"""Tells what comes once after training from what comes again and again in it."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["beyond_usual"]


def beyond_usual(spans: Iterable[tuple[int, float]], steps: int) -> float:
    """Return the seconds after the last step beyond those of a usual stop before it.

    Each span has the steps made before it, and its seconds. An evaluation after the last step may
    be one of many; a test set, or a game that is played with the trained model, comes once. Without
    a stop before, nothing is known.
    """
    by_step: dict[int, float] = defaultdict(float)
    for step, seconds in spans:
        by_step[step] += seconds
    last = by_step.pop(steps, 0.0)
    return max(0.0, last - fmean(by_step.values())) if by_step else 0.0
