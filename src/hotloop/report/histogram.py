"""Histograms of integers as inline SVG."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hotloop.report.axis import Axis, linear
from hotloop.report.chart import grid
from hotloop.report.markup import Html, join, picture, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["columns", "histogram"]

COLUMNS = 40  # at most
GAP = 0.12  # of a column, left free beside it


def histogram(
    values: Sequence[int], *, mark: tuple[float, str] | None = None, **words: Any
) -> Html:
    """Return a histogram of values, at least one and none negative.

    `mark` is a value to compare them with, and its label; `words` are the texts of `columns`.
    """
    top = max(*values, mark[0] if mark else 0, 1)
    wide = int(-(-(top + 1) // COLUMNS))  # values in one column, rounded up
    counts = Counter(value // wide for value in values)
    x = linear([0.0, float(wide * int(top // wide + 1))], ticks=6, tight=True, least=1.0)
    bins = [(n * wide, (n + 1) * wide - 1, counts[n]) for n in sorted(counts)]
    line = _mark(x, *mark) if mark else ""
    return columns(bins, x, gap=GAP, mark=line, **words)


def columns(
    bins: Sequence[tuple[int, int, int]],  # first and last value, and how often they were counted
    x: Axis,
    *,
    id: str,
    title: str,
    summary: str,
    across: str,
    up: str,
    gap: float,
    units: tuple[str, str] = ("", ""),  # of a value and of a count, after a blank
    mark: object = "",
    look: str = "chart",
) -> Html:
    """Return a figure with a column for each bin; `gap` is the share of it that is left free."""
    y = linear([0.0, float(max(count for *_, count in bins))], ticks=5, zero=True, least=1.0)
    rects = []
    for first, last, count in bins:
        span = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        left, right, high = x.at(first), x.at(last + 1), y.at(count)
        place = {"x": f"{left:.3%}", "width": f"{(right - left) * (1 - gap):.3%}"}
        label = tag("title", f"{span}{units[0]}: {count:,}{units[1]}")
        place |= {"y": f"{1 - high:.3%}", "height": f"{high:.3%}"}
        rects.append(tag("rect", label, class_="column", **place))
    axes = grid(x, y, across=across, up=up)
    svg = picture(id, title, summary, axes, *rects, mark, class_="columns")
    return tag("figure", tag("figcaption", tag("h3", title)), svg, class_=look)


def _mark(x: Axis, value: float, label: str) -> Html:
    place = f"{x.at(value):.2%}"
    is_right = x.at(value) > 0.5
    side = {"class_": "axis end", "dx": "-6"} if is_right else {"class_": "axis", "dx": "6"}
    line = tag("line", class_="event b", x1=place, x2=place, y1="0", y2="100%")
    return join([line, tag("text", label, x=place, y="0", dy="12", **side)])
