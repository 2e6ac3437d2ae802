"""The page of the doctor's diagnosis of a script: one file that loads no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.case.case import IN_STEP
from hotloop.core.units import bytes_, duration, many, moment
from hotloop.report import profile, sentences, timeline
from hotloop.report.batches import batches
from hotloop.report.built import built, settings
from hotloop.report.document import document
from hotloop.report.figures import Figure
from hotloop.report.findings import LOOKS, findings, not_worth_it
from hotloop.report.ledger import waterfall
from hotloop.report.markup import UNKNOWN, Html, code, join, missing, table, tag
from hotloop.report.sections import cards, facts, section
from hotloop.report.wall import key, wall_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Diagnosis

__all__ = ["page"]


def page(case: Case, diagnosis: Diagnosis) -> str:
    """Return the diagnosis of a script as HTML."""
    loaders = [loader for loader in case.training_loaders if loader.waits]
    main = tag(
        "main",
        section("Where the time goes", waterfall(case) if case.ledger else _wall(case)),
        section("Findings", findings(case, diagnosis.findings)),
        section(
            "The run",
            tag(
                "div",
                tag("div", timeline.strip(case), class_="wide"),
                timeline.step_times(case),
                timeline.losses(case),
                *map(timeline.waits, loaders),
                class_="charts",
            ),
        ),
        section("What the model is given", batches(case)),
        section("What the script built", _panel(built(case))),
        section("Hottest operators", _panel(profile.operators(case))),
        section("Ceilings", _panel(profile.ceilings(case))),
        section("Settings and techniques", _panel(settings(case))),
        section("Not worth it", not_worth_it(diagnosis.not_worth_it)),
        section("Not checked", _unchecked(diagnosis.not_checked)),
    )
    title = f"{sentences.name(case)}: what hotloop doctor found"
    return document(title, _header(case, diagnosis), main)


def _header(case: Case, diagnosis: Diagnosis) -> Html:
    verdict = sentences.verdict(case, diagnosis)
    look = f"callout verdict {LOOKS[verdict.severity]}"
    return tag(
        "header",
        tag("div", tag("h1", sentences.name(case), " ", tag("small", "doctor")), class_="top"),
        tag(
            "div",
            tag("p", diagnosis.unstable) if diagnosis.unstable else "",
            tag("p", tag("strong", verdict.said)),
            tag("p", verdict.also) if verdict.also else "",
            tag("p", sentences.counted(diagnosis.findings), class_="soft"),
            class_=look,
        ),
        cards(_figures(case)),
        tag("p", sentences.observed(case), ".", class_="soft about"),
        tag("div", facts(_about(case)), class_="about"),
    )


def _figures(case: Case) -> Iterator[Figure]:
    time = case.step_time
    known = time is not None and time.median > 0
    pace = sentences.speed(time) if known and time else UNKNOWN
    rests = sentences.reading(time) if time else "no step was timed"
    yield Figure(name="speed", number=None, unit="", shown=pace, rests_on=rests)
    compute = case.share(*sentences.COMPUTE)
    words = "of the wall time in forward, backward and update"
    yield Figure(name="compute", number=compute, unit="", shown=f"{compute:.0%}", rests_on=words)
    steps = case.steps.count
    planned = (
        ""
        if case.planned_steps is None or case.stopped is None
        else f"of {case.planned_steps:,} planned; "
    )
    basis = f"{planned}{case.epochs:,} epoch{'s' * (case.epochs != 1)} begun"
    yield Figure(name="observed", number=steps, unit="", shown=f"{steps:,} steps", rests_on=basis)
    seconds, own = case.seconds, duration(case.own_time)
    yield Figure(
        name="wall time", number=seconds, unit="s", shown=duration(seconds),
        rests_on=f"hotloop's own {own} not in it",
    )  # fmt: skip


def _about(case: Case) -> dict[str, object]:
    machine = case.hardware
    memory = UNKNOWN if machine.memory_bytes is None else bytes_(machine.memory_bytes)
    cores = f"{UNKNOWN} cores" if machine.cores is None else many(machine.cores, "core")
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return {
        "script": code(case.script),
        "loop": "its own" if case.framework == "plain" else case.framework,
        "hardware": f"{machine.name} ({machine.device}), {memory}, {cores}",
        "versions": versions or UNKNOWN,
    }


def _wall(case: Case) -> Html:
    """Return a bar of the wall time that shares refer to, and a table of all its rows."""
    rows, once = sentences.rows(case), sentences.once(case)
    if not rows:
        return missing("Nothing was observed.")
    lines: list[Sequence[object]] = [
        (
            join([key(row), row]),
            f"{seconds:,.2f}",
            "once" if row in once else f"{case.part(seconds):.1%}",
            _row_in_words(case, row, seconds),
        )
        for row, seconds in rows.items()
    ]
    lines.append((tag("strong", "all"), tag("strong", f"{case.seconds:,.2f}"), "", ""))
    titles = ("row", "seconds", "share", "what is in it")
    caption = "Every second belongs to one row; hotloop's own time is in none."
    if once:
        caption += (
            " The run was stopped early: bar and shares leave out what it does only once, which "
            "would look larger than it is."
        )
    in_bar = {row: seconds for row, seconds in rows.items() if row not in once}
    return _panel(
        wall_bar(in_bar, whole=case.judged, id="wall", title="Wall time by row"),
        table(titles, lines, caption=caption, kind="wall"),
    )


def _row_in_words(case: Case, row: str, seconds: float) -> str:
    mean = case.per_step(seconds) if row in IN_STEP else None
    means = sentences.MEANS.get(row, "")
    return means if mean is None else f"{moment(mean)} a step: {means}"


def _unchecked(lines: Sequence[str]) -> Html:
    if not lines:
        return missing("Every rule could be checked.")
    return tag("ul", *(tag("li", line) for line in lines), class_="notes panel")


def _panel(*children: object) -> Html:
    return tag("div", *children, class_="panel")
