"""The parts a page is put together from. What is unknown says so, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, many
from hotloop.report import curves
from hotloop.report.chart import draw
from hotloop.report.markup import UNKNOWN, Html, code, join, missing, table, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.report.chart import Chart
    from hotloop.report.curves import Shown
    from hotloop.report.facts import Facts, TechniqueRow
    from hotloop.report.figures import Figure

__all__ = [
    "cards",
    "charts",
    "descent",
    "facts",
    "identity",
    "notes",
    "reason",
    "section",
    "settings",
    "speed_and_memory",
    "status",
    "techniques",
    "when",
]

_WORDS = {"in effect": "effect", "refused": "refused"}
MOST_NOTES = 100
_STATUS = {"complete", "stopped", "running", "failed", "diverged"}


def section(title: str, *parts: object) -> Html:
    """Return parts under a heading."""
    return tag("section", tag("h2", title), *parts)


def status(run: Facts) -> Html:
    """Return the run's status as a pill."""
    known = run.status if run.status in _STATUS else ""
    return tag("span", run.status, class_=f"pill {known}".strip())


def reason(run: Facts) -> Html:
    """Return why the run ended, where its status does not say it already."""
    said, resume = run.reason, ""
    if run.status == "running":
        said = "No process has ended this run: it is running, or was killed"
    elif said is None or said == run.status:
        return Html()
    else:
        said = f"{run.status}: {said}"
    if run.status in ("running", "stopped"):
        resume = join([" Go on with: ", tag("code", run.resume_command)])
    known = run.status if run.status in _STATUS else "plain"
    return tag("p", said, ".", resume, class_=f"callout {known}")


def when(stamp: str | None) -> str:
    """Return a moment as 2026-11-21 13:41:35 UTC; what is no moment stays what it is."""
    try:
        moment = datetime.fromisoformat(stamp or "").astimezone(UTC)
    except (ValueError, OverflowError):
        return stamp or UNKNOWN
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def identity(run: Facts) -> dict[str, object]:
    """Return where and with what a run was made."""
    machine = run.hardware
    device = versions = UNKNOWN
    if machine is not None:
        cores = f"{UNKNOWN} cores" if machine.cores is None else many(machine.cores, "core")
        memory = UNKNOWN if machine.memory_bytes is None else bytes_(machine.memory_bytes)
        several = f"{machine.count} x " if machine.count > 1 else ""
        device = f"{several}{machine.name} ({machine.device}), {memory}, {cores}"
        versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return {
        "folder": tag("code", run.path),
        "begun": when(run.created),
        "hardware": device,
        "versions": versions or UNKNOWN,
    }


def facts(rows: Mapping[str, object]) -> Html:
    """Return names and values as a list."""
    pairs = (join([tag("dt", name), tag("dd", value)]) for name, value in rows.items())
    return tag("dl", *pairs, class_="facts")


def cards(figures: Iterable[Figure]) -> Html:
    """Return key figures as cards."""
    return tag("dl", *map(_card, figures), class_="cards")


def _card(figure: Figure) -> Html:
    look = "shown unknown" if figure.shown == UNKNOWN else "shown"
    return tag(
        "div",
        tag("dt", figure.name),
        tag("dd", figure.shown, class_=look),
        tag("dd", figure.rests_on, class_="rests"),
    )


def charts(*drawn: Chart) -> Html:
    """Return charts side by side; one without a curve says that it has none."""
    figures = (draw(chart) if chart.lines else _empty(chart) for chart in drawn)
    return tag("div", *figures, class_="charts")


def _empty(chart: Chart) -> Html:
    why = missing("The run folder holds no such readings.")
    look = f"chart {chart.look}".strip()
    return tag("figure", tag("figcaption", tag("h3", chart.title)), why, class_=look)


def speed_and_memory(shown: Sequence[Shown]) -> Html:
    """Return the charts of what the machine did."""
    drawn = (curves.throughput(shown), curves.memory(shown), curves.utilisation(shown))
    return section("Speed and memory", charts(*drawn))


def descent(shown: Sequence[Shown]) -> Html:
    """Return the charts of how it was trained."""
    drawn = (curves.gradient_norm(shown), curves.learning_rate(shown))
    return section("Gradient and learning rate", charts(*drawn))


def techniques(rows: Sequence[TechniqueRow]) -> Html:
    """Return what was asked for, what is in effect, and how that was read back."""
    if not rows:
        return missing("The run folder names no technique.")
    lines = ((code(r.name), r.origin, r.reason, _word(r), r.how) for r in rows)
    titles = ("technique", "asked by", "why", "outcome", "how it was read back, or why not")
    caption = "What was asked for, and what the running process said about it before step 1."
    return table(titles, lines, caption=caption, kind="list")


def _word(each: TechniqueRow) -> Html:
    return tag("span", each.word, class_=_WORDS.get(each.word or ""))


def settings(run: Facts) -> Html:
    """Return every setting with its origin, folded away."""
    if not run.settings:
        return missing("The run folder holds no settings.")
    lines = [(code(k), code(v), run.origins.get(k)) for k, v in run.settings.items()]
    typed = sum(origin == "command line" for origin in run.origins.values())
    head = f"{len(lines)} settings, {typed} of them from the command line"
    rows = table(("setting", "value", "origin"), lines, caption="In the order of the recipe.",
                 kind="list")  # fmt: skip
    return tag("details", tag("summary", head), rows)


def notes(run: Facts) -> Html:
    """Return what the run wrote for a reader, and what of its folder could not be read."""
    found = [tag("li", gap) for gap in run.gaps]
    written = run.history.notes
    found += [tag("li", tag("strong", f"step {n:,}: "), said) for n, said in written[:MOST_NOTES]]
    if len(written) > MOST_NOTES:
        found.append(tag("li", f"and {len(written) - MOST_NOTES:,} more in the run's events"))
    if not found:
        return missing("The run wrote no note.")
    return tag("ul", *found, class_="notes panel")
