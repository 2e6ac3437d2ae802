"""The sections that pages are built from; an unknown value is shown with the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, many
from hotloop.report import curves, markup
from hotloop.report.chart import draw
from hotloop.report.markup import UNKNOWN, Html, code, join, missing, table, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.hardware import Hardware
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
    "machine_in_words",
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


def section(title: str, *children: object) -> Html:
    """Return elements under a heading."""
    return tag("section", tag("h2", title), *children)


def status(run: Facts) -> Html:
    """Return the run's status as a pill."""
    known = run.status if run.status in _STATUS else ""
    return tag("span", run.status, class_=f"pill {known}".strip())


def reason(run: Facts) -> Html:
    """Return why the run ended, unless its status already says so."""
    sentence, resume = run.reason, ""
    if run.status == "running":
        sentence = "No process has ended this run: it is running, or was killed"
    elif sentence is None or sentence == run.status:
        return Html()
    else:
        sentence = f"{run.status}: {sentence}"
    if run.status in ("running", "stopped"):
        resume = join([" Go on with: ", tag("code", run.resume_command)])
    known = run.status if run.status in _STATUS else "plain"
    return tag("p", sentence, ".", resume, class_=f"callout {known}")


def when(stamp: str | None) -> str:
    """Return an ISO 8601 time as 2026-11-21 13:41:35 UTC, and any other text unchanged."""
    try:
        moment = datetime.fromisoformat(stamp or "").astimezone(UTC)
    except (ValueError, OverflowError):
        return stamp or UNKNOWN
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def identity(run: Facts) -> dict[str, object]:
    """Return the folder, the start, the hardware and the versions of a run."""
    machine = {"hardware": UNKNOWN, "versions": UNKNOWN}
    if run.hardware is not None:
        machine = machine_in_words(run.hardware, several=run.hardware.count)
    return {"folder": tag("code", run.path), "begun": when(run.created), **machine}


def machine_in_words(machine: Hardware, *, several: int = 1) -> dict[str, str]:
    """Return the hardware, `several` devices of it, and its versions."""
    cores = f"{UNKNOWN} cores" if machine.cores is None else many(machine.cores, "core")
    memory = UNKNOWN if machine.memory_bytes is None else bytes_(machine.memory_bytes)
    device = f"{machine.name} ({machine.device}), {memory}, {cores}"
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return {
        "hardware": f"{several} x {device}" if several > 1 else device,
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
    """Return charts side by side; a chart without curves is replaced by a note."""
    figures = (draw(chart) if chart.lines else _empty(chart) for chart in drawn)
    return tag("div", *figures, class_="charts")


def _empty(chart: Chart) -> Html:
    why = missing("The run folder holds no such readings.")
    look = f"chart {chart.look}".strip()
    return tag("figure", tag("figcaption", tag("h3", chart.title)), why, class_=look)


def speed_and_memory(runs: Sequence[Shown]) -> Html:
    """Return the charts of throughput, memory and utilisation."""
    curve_charts = (curves.throughput(runs), curves.memory(runs), curves.utilisation(runs))
    return section("Speed and memory", charts(*curve_charts))


def descent(runs: Sequence[Shown]) -> Html:
    """Return the charts of the gradient norm and the learning rate."""
    curve_charts = (curves.gradient_norm(runs), curves.learning_rate(runs))
    return section("Gradient and learning rate", charts(*curve_charts))


def techniques(rows: Sequence[TechniqueRow]) -> Html:
    """Return the requested techniques, which are in effect, and how that was read back."""
    if not rows:
        return missing("The run folder names no technique.")
    lines = (
        (
            code(r.name),
            r.origin,
            r.reason,
            tag("span", r.word, class_=_WORDS.get(r.word or "")),
            r.how,
        )
        for r in rows
    )
    titles = ("technique", "asked by", "why", "outcome", "how it was read back, or why not")
    caption = "What was asked for, and what the running process said about it before step 1."
    return table(titles, lines, caption=caption, kind="list")


def settings(run: Facts) -> Html:
    """Return all settings with their origins, in a collapsed element."""
    if not run.settings:
        return missing("The run folder holds no settings.")
    lines = [(code(k), code(v), run.origins.get(k)) for k, v in run.settings.items()]
    typed = sum(origin == "command line" for origin in run.origins.values())
    head = f"{len(lines)} settings, {typed} of them from the command line"
    rows = table(("setting", "value", "origin"), lines, caption="In the order of the recipe.",
                 kind="list")  # fmt: skip
    return tag("details", tag("summary", head), rows)


def notes(run: Facts) -> Html:
    """Return the gaps of the run folder and the notes of the run."""
    written = run.history.notes
    items = [*run.gaps]
    items += [join([tag("strong", f"step {n:,}: "), note]) for n, note in written[:MOST_NOTES]]
    if len(written) > MOST_NOTES:
        items.append(f"and {len(written) - MOST_NOTES:,} more in the run's events")
    return markup.notes(items, none="The run wrote no note.")
