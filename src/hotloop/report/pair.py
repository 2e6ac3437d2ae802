"""The page of two runs side by side: their differences, and their charts overlaid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.report import curves, sections
from hotloop.report.chart import legend
from hotloop.report.compare import (
    differences,
    losses_in_words,
    speed,
    why_losses_unlike,
    why_unlike,
)
from hotloop.report.document import document
from hotloop.report.figures import figures
from hotloop.report.markup import UNKNOWN, Html, code, join, missing, panel, table, tag
from hotloop.report.wall import key, processes, wall_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotloop.report.facts import Facts
    from hotloop.report.figures import Basis, Figure

__all__ = ["pair"]


def pair(a: Facts, b: Facts) -> str:
    """Return the report of two runs as HTML."""
    runs = [
        curves.Shown(run=a, look="a", label="A"),
        curves.Shown(run=b, look="b second", label="B"),
    ]
    losses = sections.charts(curves.losses(runs), curves.losses_by_time(runs))
    main = tag(
        "main",
        sections.section("What differs", panel(_differences(a, b))),
        sections.section("Figures", panel(_figures(a, b))),
        sections.section("Losses", losses),
        sections.speed_and_memory(runs),
        sections.section("Where the wall time went", _wall(a, b)),
        sections.descent(runs),
        sections.section("Notes", *_labelled(a, b, sections.notes)),
        sections.section("Settings", panel(_settings(a, b))),
    )
    return document(f"{a.name} and {b.name}", _header(a, b), main)


def _header(a: Facts, b: Facts) -> Html:
    """Return which runs these are, which one is faster, and which loss is lower."""
    verdict = speed(a, b)
    look = "complete" if verdict.faster else "plain"
    answer = tag("strong", f"Speed: {verdict.shown}. ")
    losses = join([tag("strong", "Loss: "), losses_in_words(a, b)])
    who = (
        panel(
            tag("div", _name(label, look, run), sections.status(run), class_="top"),
            sections.facts(sections.identity(run)),
            sections.reason(run),
        )
        for label, look, run in (("A", "a", a), ("B", "b second", b))
    )
    return tag(
        "header",
        tag("h1", a.name, tag("small", " and "), b.name),
        tag("p", answer, verdict.why, ".", class_=f"callout {look}"),
        tag("p", losses, class_="callout plain"),
        tag("div", *who, class_="two who"),
    )


def _name(label: str, look: str, run: Facts) -> Html:
    return tag("h3", legend([(f"{label}: {run.recipe or 'a run'} {run.name}", f"{look} only")]))


def _differences(a: Facts, b: Facts) -> Html:
    differing = differences(a, b)
    if not differing:
        return missing("Nothing: settings, plan, data, hardware and versions agree.")
    lines = ((code(d.key), d.kind, d.a, d.b) for d in differing)
    caption = "Everything else agrees: settings, plan, data, hardware and versions."
    return table(("what", "kind", "A", "B"), lines, caption=caption, kind="list")


def _figures(a: Facts, b: Facts) -> Html:
    unlike, losses, verdict = why_unlike(a, b), why_losses_unlike(a, b), speed(a, b)
    barred: dict[Basis, str | None] = {
        "validation": losses,
        "machine": unlike,
        "speed": None if verdict.faster else verdict.why,
    }
    lines: list[Sequence[object]] = []
    mine, others = ({figure.name: figure for figure in figures(run)} for run in (a, b))
    for name in dict.fromkeys([*mine, *others]):
        x, y = mine.get(name), others.get(name)
        cells = (_cell(figure) for figure in (x, y))
        if x is None or y is None:  # the other run does not have this score
            ratio = "not compared"
        else:
            ratio = "not compared" if barred.get(x.basis) else _ratio(x.number, y.number)
        lines.append((name, *cells, ratio))
    whys = "; ".join(dict.fromkeys(why for why in barred.values() if why))
    caption = "One run each. " + (f"Not compared: {whys}." if whys else "")
    return table(("figure", "A", "B", "B over A"), lines, caption=caption, kind="list")


def _cell(figure: Figure | None) -> Html | str:
    if figure is None:
        return "-"
    return join([figure.shown, tag("div", figure.rests_on, class_="soft")])


def _ratio(a: float | None, b: float | None) -> str:
    return UNKNOWN if a is None or b is None or a <= 0 else f"{b / a:.3g}"


def _wall(a: Facts, b: Facts) -> Html:
    walls = (a.wall, b.wall)
    totals = [sum(wall.values()) for wall in walls]
    bars = [_bar(label, w, max(totals)) for label, w in zip("AB", walls, strict=True)]
    lines: list[Sequence[object]] = []
    for name in dict.fromkeys([*a.wall, *b.wall]):
        cells = [_seconds(w, t, name) for w, t in zip(walls, totals, strict=True)]
        lines.append((join([key(name), name]), *cells))
    lines.append((tag("strong", "all"), *(f"{total:,.2f} s" for total in totals)))
    caption = "Both bars have one scale of seconds."
    rows = table(("row", "A", "B"), lines, caption=caption, kind="numbers")
    return panel(*bars, rows, *_labelled(a, b, processes))


def _bar(label: str, rows: Mapping[str, float], longest: float) -> Html:
    title = f"Wall time of {label} by row"
    bar = wall_bar(rows, whole=longest, id=f"wall-{label}", title=title)
    return tag("div", tag("p", label, class_="soft"), bar)


def _seconds(wall: dict[str, float], total: float, name: str) -> str:
    if name not in wall:
        return "-"
    return f"{wall[name]:,.2f} s, {wall[name] / (total or 1.0):.1%}"


def _settings(a: Facts, b: Facts) -> Html:
    lines = []
    for name in dict.fromkeys([*a.settings, *b.settings]):
        mine, theirs = code(a.settings.get(name)), code(b.settings.get(name))
        if mine != theirs:
            mine, theirs = tag("mark", mine), tag("mark", theirs)
        lines.append((code(name), mine, theirs))
    rows = table(("setting", "A", "B"), lines, caption="In the order of the recipe.", kind="list")
    return tag("details", tag("summary", f"all {len(lines)} settings"), rows)


def _labelled(a: Facts, b: Facts, section: Callable[[Facts], Html]) -> Iterator[Html]:
    """Yield a section of each run under its letter; skip an empty section."""
    for label, run in (("A", a), ("B", b)):
        if content := section(run):
            yield tag("div", tag("p", label, class_="soft"), content, class_="apart")
