"""Line charts and stacked bars as inline SVG that keeps its text size at every width.

Curves are drawn in an inner SVG of 1000 x 1000 units that is stretched; text and points lie outside
of it, placed in per cent. A chart therefore fits any page without a script.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.report.axis import Axis, linear, spanning
from hotloop.report.markup import Html, join, picture, tag
from hotloop.report.thin import thin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.report.thin import Bucket

__all__ = [
    "Chart",
    "Curve",
    "Event",
    "bar",
    "chart_of",
    "curve",
    "draw",
    "grid",
    "legend",
    "values",
]

SIZE = 1000  # units of the inner SVG, each way
NARROWEST = 0.004  # share of a bar below which a segment would be invisible


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One curve. `look`: its classes in page.css, a colour (a, b) and a style (train, valid)."""

    label: str
    look: str
    buckets: Sequence[Bucket]
    marks: bool = False  # a point at each value


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Events at positions on the horizontal axis; `look` is a class of page.css."""

    label: str
    look: str
    at: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart; `title` states the result, `summary` describes it at more length."""

    id: str
    title: str
    summary: str
    across: str  # title of the horizontal axis, with its unit
    up: str  # title of the vertical axis, with its unit
    x: Axis
    y: Axis
    lines: Sequence[Curve]
    events: Sequence[Event] = ()
    note: str | None = None  # how to read the chart, where that is not obvious
    look: str = ""  # tall, or nothing


def curve(label: str, look: str, points: Iterable[tuple[float, float]], buckets: int) -> Curve:
    """Return the curve of (x, y) points, thinned to a number of buckets."""
    return Curve(label=label, look=look, buckets=thin(points, buckets=buckets))


def values(lines: Iterable[Curve]) -> list[float]:
    """Return the ends of all buckets, which a vertical axis must span."""
    return [value for line in lines for b in line.buckets for value in (b.low, b.high)]


def chart_of(
    lines: Sequence[Curve],
    *,
    y: Axis | None = None,
    ticks: int = 5,
    zero: bool = False,
    note: str,
    **more: Any,
) -> Chart:
    """Return a chart of curves; without `y`, its axis spans them, from 0 on with `zero`.

    `note` says how to read a thinned curve. `more` are further fields of Chart.
    """
    if y is None:
        known = values(lines)
        y = linear(known, ticks=ticks, zero=True) if zero else spanning(known, ticks=ticks)
    thinned = any(bucket.low < bucket.high for line in lines for bucket in line.buckets)
    drawn = [line for line in lines if line.buckets]
    return Chart(y=y, lines=drawn, note=note if thinned else None, **more)


def draw(chart: Chart) -> Html:
    """Return the chart as a figure."""
    inner = tag(
        "svg",
        *(_line(chart, line) for line in chart.lines),
        class_="curves",
        viewBox=f"0 0 {SIZE} {SIZE}",
        preserveAspectRatio="none",
        width="100%",
        height="100%",
    )
    scale = "log" if chart.y.logarithmic else "linear"
    svg = picture(
        chart.id,
        chart.title,
        f"{chart.summary} {_axes_in_words(chart)}",
        grid(chart.x, chart.y, across=chart.across, up=chart.up),
        *_events(chart),
        inner,
        *(_points(chart, line) for line in chart.lines),
        tag("line", class_="cursor", y1="0", y2="100%"),
        # Without an empty title of its own, the browser's tooltip would cover the pointed-at value.
        tag("rect", tag("title"), class_="over", width="100%", height="100%"),
        class_="plot",
        data_x=f"{chart.x.low!r} {chart.x.high!r}",
        data_y=f"{chart.y.low!r} {chart.y.high!r} {scale}",
        data_across=chart.across,
    )
    keys = [(line.label, line.look) for line in chart.lines if line.label]
    keys += [(event.label, f"event {event.look}") for event in chart.events]
    caption = tag("figcaption", tag("h3", chart.title), legend(keys) if keys else "")
    read_out = tag("p", class_="read-out", aria_hidden="true")
    note = tag("p", chart.note, class_="note") if chart.note else ""
    return tag("figure", caption, svg, read_out, note, class_=f"chart {chart.look}".strip())


def grid(x: Axis, y: Axis, *, across: str, up: str) -> Html:
    """Return the lines, ticks and titles of two axes."""
    elements: list[Html] = []
    for value, label in zip(y.ticks, y.labels, strict=True):
        place = f"{1 - y.at(value):.2%}"
        elements.append(tag("line", class_="grid", x2="100%", y1=place, y2=place))
        elements.append(tag("text", label, class_="tick y", y=place, dx="-8", dy="4"))
    for value, label in zip(x.ticks, x.labels, strict=True):
        place = f"{x.at(value):.2%}"
        elements.append(tag("text", label, class_="tick x", x=place, y="100%", dy="18"))
    scale = ", log scale" * y.logarithmic
    elements.append(tag("line", class_="floor", x2="100%", y1="100%", y2="100%"))
    elements.append(tag("text", f"{up}{scale}", class_="axis", y="0", dx="-46", dy="-12"))
    elements.append(tag("text", across, class_="axis end", x="100%", y="100%", dy="36"))
    return join(elements)


def legend(keys: Iterable[tuple[str, str]]) -> Html:
    """Return (label, look) pairs as a legend."""
    items = (tag("li", _swatch(look), label) for label, look in keys)
    return tag("ul", *items, class_="legend")


def bar(shares: Mapping[str, float], looks: Mapping[str, str], *, id: str, title: str) -> Html:
    """Return shares that sum to 1 as one stacked bar; `looks` gives the class of each share."""
    left, segments = 0.0, []
    for name, share in shares.items():
        if share >= NARROWEST:
            place = {"x": f"{left:.3%}", "width": f"{share:.3%}", "height": "100%"}
            label = tag("title", f"{name}: {share:.1%}")
            segments.append(tag("rect", label, class_=f"row {looks.get(name, 'rest')}", **place))
        left += share
    words = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return picture(id, title, words, *segments, class_="bar")


def _swatch(look: str) -> Html:
    middle = {"cx": "14", "cy": "6", "r": "3.5"}
    marks = tag("circle", class_=f"point {look}", **middle) if "valid" in look else ""
    line = tag("line", class_=f"line {look}", x1="1", x2="27", y1="6", y2="6")
    return tag("svg", line, marks, class_="swatch", width=28, height=12, aria_hidden="true")


def _events(chart: Chart) -> Iterable[Html]:
    """Draw each kind at its own height, because several kinds often share a position."""
    kinds = len(chart.events)
    for n, event in enumerate(chart.events):
        height = {"y1": f"{n / kinds:.1%}", "y2": f"{(n + 1) / kinds:.1%}"}
        for position in event.at:
            x = f"{chart.x.at(position):.2%}"
            yield tag("line", class_=f"event {event.look}", x1=x, x2=x, **height)


def _line(chart: Chart, line: Curve) -> Html:
    points = [(_x(chart, b), b) for b in line.buckets]
    if not points:
        return Html()
    band: object = ""
    if any(b.low < b.high for b in line.buckets):
        edge = [f"{x} {_y(chart, b.high)}" for x, b in points]
        edge += [f"{x} {_y(chart, b.low)}" for x, b in reversed(points)]
        band = tag("path", class_=f"band {line.look}", d=Html(f"M{' '.join(edge)}Z"))
    middle = " ".join(f"{x} {_y(chart, b.middle)}" for x, b in points)
    path = tag("path", class_=f"line {line.look}", data_label=line.label, d=Html(f"M{middle}"))
    return tag("g", band, path)


def _points(chart: Chart, line: Curve) -> Html:
    if not line.marks and len(line.buckets) != 1:
        return Html()
    return join(
        tag(
            "circle",
            class_=f"point {line.look}",
            cx=f"{chart.x.at(b.x):.2%}",
            cy=f"{1 - chart.y.at(b.middle):.2%}",
            r="4",
        )
        for b in line.buckets
    )


def _x(chart: Chart, bucket: Bucket) -> str:
    return _short(SIZE * chart.x.at(bucket.x))


def _y(chart: Chart, value: float) -> str:
    return _short(SIZE * (1 - chart.y.at(value)))


def _short(number: float) -> str:
    """Return a number with two decimals (1/100,000 of an axis), without trailing zeros."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _axes_in_words(chart: Chart) -> str:
    x, y = chart.x, chart.y
    return (
        f"Across: {chart.across}, {x.low:.4g} to {x.high:.4g}. Up: {chart.up}, {y.low:.4g} to "
        f"{y.high:.4g}{', logarithmic' * y.logarithmic}."
    )
