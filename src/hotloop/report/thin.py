"""Shorten a long curve without hiding spikes: each bucket keeps its lowest and highest value."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Bucket", "thin"]

BEYOND = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The values that share one position on the horizontal axis."""

    x: float  # of the middle point
    low: float
    middle: float  # the median
    high: float


def thin(points: Iterable[tuple[float, float]], *, buckets: int) -> list[Bucket]:
    """Return `buckets` buckets of equal width for (x, y) points.

    Up to twice as many points are returned unchanged, because buckets would take as much room.
    Values that are not finite, or too large for a chart to scale, are left out.
    """
    known = sorted((x, y) for x, y in points if abs(x) < BEYOND and abs(y) < BEYOND)  # not NaN
    if len(known) <= 2 * buckets:
        return [Bucket(x=x, low=y, middle=y, high=y) for x, y in known]
    left, width = known[0][0], (known[-1][0] - known[0][0]) / buckets or 1.0
    groups: dict[int, list[tuple[float, float]]] = {}
    for x, y in known:
        groups.setdefault(min(buckets - 1, int((x - left) / width)), []).append((x, y))
    return [_bucket(group) for group in groups.values()]


def _bucket(group: list[tuple[float, float]]) -> Bucket:
    ys = [y for _, y in group]
    x, middle = group[len(group) // 2][0], statistics.median(ys)
    return Bucket(x=x, low=min(ys), middle=middle, high=max(ys))
