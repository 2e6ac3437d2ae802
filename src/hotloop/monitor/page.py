"""Writes the HTML page of the monitor: figures, notable readings, curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import duration
from hotloop.monitor.series import headline, name_of, shown
from hotloop.report.axis import linear
from hotloop.report.chart import Chart, Curve, draw
from hotloop.report.document import document
from hotloop.report.figures import Figure
from hotloop.report.markup import UNKNOWN, Html, join, missing, table, tag
from hotloop.report.sections import cards, facts, section, when
from hotloop.report.thin import thin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.monitor.assess import Assessment
    from hotloop.monitor.charts import Plot
    from hotloop.monitor.record import About
    from hotloop.monitor.series import SeriesStats

__all__ = ["page"]

WIDE = 500  # buckets across a chart
LOOKS = ("a", "b")
GPUS = ("utilisation_percent", "power_w", "temperature_c", "memory_bytes")
HOST = ("run_tokens_per_s", "cpu_percent", "process_cpu_cores", "process_rss_bytes",
        "ram_used_bytes")  # fmt: skip


def page(
    about: About,
    stats: Mapping[str, SeriesStats],
    plots: Sequence[Plot],
    assessment: Assessment,
    unknown: Mapping[str, str],
) -> str:
    """Return the page."""
    main = tag(
        "main",
        section("What stands out", _notes(assessment)),
        section("Over time", _charts(plots)),
        section("Figures", tag("div", _table(stats), class_="panel")),
        section("Unknown", _unknown(unknown)),
    )
    title = f"{about.watched}: what hotloop monitor saw"
    return document(title, _header(about, stats, assessment), main)


def _header(about: About, stats: Mapping[str, SeriesStats], assessment: Assessment) -> Html:
    look = {"problem": "failed", "excellent": "complete", "good": "complete"}
    rows: dict[str, object] = {
        "begun": when(about.began),
        "watched for": f"{duration(about.seconds)}, every {about.interval:g} s",
        "ended": about.ended or "it goes on",
        "own cost": f"{about.cpu_percent:.2f} % of one core, sampling alone",
    }
    return tag(
        "header",
        tag("div", tag("h1", about.watched, " ", tag("small", "monitor")), class_="top"),
        tag(
            "div",
            tag("p", tag("strong", f"Throughput: {assessment.throughput}")),
            tag("p", assessment.because, "."),
            tag("p", f"Thresholds: {assessment.thresholds}.", class_="soft"),
            class_=f"callout verdict {look.get(assessment.throughput, 'plain')}",
        ),
        cards(_figures(stats)),
        tag("div", facts(rows), class_="about"),
    )


def _figures(stats: Mapping[str, SeriesStats]) -> list[Figure]:
    of_gpus = [name for name in stats if name.startswith("gpu") and name.endswith(GPUS)]
    names = [*of_gpus, *(name for name in HOST if name in stats)]
    if not of_gpus:
        why = "no GPU could be read: see Unknown"
        missed = Figure(name="GPU", number=None, unit="", shown=UNKNOWN, rests_on=why)
        return [missed, *(_figure(name, stats[name]) for name in names)]
    return [_figure(name, stats[name]) for name in names]


def _figure(name: str, stats: SeriesStats) -> Figure:
    low, high = shown(name, stats.low), shown(name, stats.high)
    return Figure(
        name=name_of(name),
        number=stats.mean,
        unit="",
        shown=shown(name, stats.mean),
        rests_on=f"mean; {low} to {high}; n = {stats.n:,}",
    )


def _notes(assessment: Assessment) -> Html:
    if not assessment.notes:
        return missing("Nothing: no reading passed a threshold.")
    rows = ((tag("strong", n.what), n.because, n.threshold) for n in assessment.notes)
    titles = ("what", "why", "said when")
    caption = "Each reading that passed its threshold."
    return tag("div", table(titles, rows, caption=caption, kind="list"), class_="panel")


def _charts(plots: Sequence[Plot]) -> Html:
    if not plots:
        return missing("No sample was taken.")
    return tag("div", *map(_chart, plots), class_="charts")


def _chart(plot: Plot) -> Html:
    named = len(plot.lines) > 1
    lines = [
        Curve(label=label if named else "", look=look, buckets=thin(points, buckets=WIDE))
        for (label, points), look in zip(plot.lines.items(), LOOKS, strict=False)
    ]
    xs = [bucket.x for line in lines for bucket in line.buckets]
    ys = [value for line in lines for bucket in line.buckets for value in (bucket.low, bucket.high)]
    y = linear([0.0, *ys, *([plot.top] if plot.top else [])], ticks=5, zero=True)
    low, high = min(ys), max(ys)
    return draw(
        Chart(
            id=plot.id,
            title=plot.title,
            summary=f"{plot.title}: {low:.4g} to {high:.4g} {plot.unit}.",
            across="seconds of watching",
            up=plot.unit,
            x=linear([0.0, max(xs, default=1.0)], ticks=6, tight=True),
            y=y,
            lines=lines,
        )
    )


def _table(stats: Mapping[str, SeriesStats]) -> Html:
    rows = [
        (name_of(name), *(shown(name, v) for v in (s.mean, s.low, s.high, s.p95)), f"{s.n:,}")
        for name, s in stats.items()
        if headline(name)
    ]
    if not rows:
        return missing("No sample was taken.")
    titles = ("reading", "mean", "lowest", "highest", "95th percentile", "n")
    return table(titles, rows, caption="Of all samples in which it was known.", kind="numbers")


def _unknown(unknown: Mapping[str, str]) -> Html:
    if not unknown:
        return missing("Nothing: all that is asked for could be read.")
    items = (tag("li", tag("strong", f"{name}: "), why) for name, why in unknown.items())
    return tag("ul", join(items), class_="notes panel")
