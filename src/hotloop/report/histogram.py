"""Histograms of integers as inline SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.report.axis import Axis, linear
from hotloop.report.chart import grid
from hotloop.report.markup import Html, join, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Histogram", "draw"]

COLUMNS = 40  # at most
GAP = 0.12  # of a column, left free beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The values to count. `mark` is a value to compare them with, and its label."""

    id: str
    title: str
    summary: str
    across: str
    up: str
    values: Sequence[int]  # at least one, none negative
    mark: tuple[float, str] | None = None


def draw(histogram: Histogram) -> Html:
    """Return the histogram as a figure."""
    top = max(*histogram.values, histogram.mark[0] if histogram.mark else 0, 1)
    wide = -(-(top + 1) // COLUMNS)  # values in one column, rounded up
    counts = _counts(histogram.values, int(wide), int(top // wide) + 1)
    x = linear([0.0, float(wide * len(counts))], ticks=6, tight=True, least=1.0)
    y = linear([0.0, float(max(counts))], ticks=5, zero=True, least=1.0)
    columns = join(_column(n, count, wide, x, y) for n, count in enumerate(counts) if count)
    return tag(
        "figure",
        tag("figcaption", tag("h3", histogram.title)),
        tag(
            "svg",
            tag("title", histogram.title, id=f"{histogram.id}-title"),
            tag("desc", histogram.summary, id=f"{histogram.id}-desc"),
            grid(x, y, across=histogram.across, up=histogram.up),
            columns,
            _mark(histogram, x) if histogram.mark else "",
            class_="columns",
            role="img",
            aria_labelledby=f"{histogram.id}-title {histogram.id}-desc",
        ),
        class_="chart",
    )


def _counts(values: Sequence[int], wide: int, columns: int) -> list[int]:
    counts = [0] * columns
    for value in values:
        counts[value // wide] += 1
    return counts


def _column(n: int, count: int, wide: float, x: Axis, y: Axis) -> Html:
    first, last = n * wide, (n + 1) * wide - 1
    span = f"{first:,.0f}" if first == last else f"{first:,.0f} to {last:,.0f}"
    left, right, high = x.at(first), x.at(first + wide), y.at(count)
    return tag(
        "rect",
        tag("title", f"{span}: {count:,}"),
        class_="column",
        x=f"{left:.3%}",
        width=f"{(right - left) * (1 - GAP):.3%}",
        y=f"{1 - high:.3%}",
        height=f"{high:.3%}",
    )


def _mark(histogram: Histogram, x: Axis) -> Html:
    assert histogram.mark is not None
    position, label = x.at(histogram.mark[0]), histogram.mark[1]
    place = f"{position:.2%}"
    side = {"class_": "axis end", "dx": "-6"} if position > 0.5 else {"class_": "axis", "dx": "6"}
    line = tag("line", class_="event b", x1=place, x2=place, y1="0", y2="100%")
    return join([line, tag("text", label, x=place, y="0", dy="12", **side)])
