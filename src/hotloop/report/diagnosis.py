"""The page of the doctor's diagnosis of a script: one file that loads no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.case.case import IN_STEP
from hotloop.core.units import duration, many, moment
from hotloop.report import profile, sentences, timeline
from hotloop.report.batches import batches
from hotloop.report.built import built, settings
from hotloop.report.document import document
from hotloop.report.figures import figure
from hotloop.report.findings import LOOKS, findings, machine, not_worth_it
from hotloop.report.ledger import waterfall
from hotloop.report.markup import UNKNOWN, Html, code, join, missing, notes, panel, table, tag
from hotloop.report.sections import cards, facts, machine_in_words, section
from hotloop.report.verdict import verdict_of
from hotloop.report.wall import key, wall_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Diagnosis
    from hotloop.report.figures import Figure

__all__ = ["page"]


def page(case: Case, diagnosis: Diagnosis) -> str:
    """Return the diagnosis of a script as HTML."""
    loaders = [loader for loader in case.training_loaders if loader.waits]
    main = tag(
        "main",
        section("Where the time goes", waterfall(case) if case.ledger else _wall(case)),
        section("Findings", findings(case, diagnosis.findings)),
        _lines("Experiments", sentences.experiments(case)),
        section("This machine", machine(case, diagnosis.machine)) if diagnosis.machine else "",
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
        section("What the script built", panel(built(case))),
        section("Hottest operators", panel(profile.operators(case))),
        section("Ceilings", panel(profile.ceilings(case))),
        section("Settings and techniques", panel(settings(case))),
        _lines("Refuted by an experiment", sentences.refuted(diagnosis)),
        section("Not worth it", not_worth_it(diagnosis.not_worth_it)),
        section("Not checked", notes(diagnosis.not_checked, none="Every rule could be checked.")),
    )
    title = f"{sentences.name(case)}: what hotloop doctor found"
    return document(title, _header(case, diagnosis), main)


def _lines(title: str, lines: Sequence[str]) -> Html:
    """Return a section with one line each, or nothing if there are none."""
    return section(title, notes(lines, none="")) if lines else join([])


def _header(case: Case, diagnosis: Diagnosis) -> Html:
    verdict = verdict_of(case, diagnosis)
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
    yield figure("speed", "", sentences.reading(time) if time else "no step was timed", None, pace)
    compute = case.share(*sentences.COMPUTE)
    words = "of the wall time in forward, backward and update"
    yield figure("compute", "", words, compute, f"{compute:.0%}")
    planned = ""
    if case.planned_steps is not None and case.stopped is not None:
        planned = f"of {case.planned_steps:,} planned; "
    begun, steps = f"{planned}{many(case.epochs, 'epoch')} begun", case.steps.count
    yield figure("observed", "", begun, steps, f"{steps:,} steps")
    own = f"hotloop's own {duration(case.own_time)} not in it"
    yield figure("wall time", "s", own, case.seconds, duration(case.seconds))


def _about(case: Case) -> dict[str, object]:
    loop = "its own" if case.framework == "plain" else case.framework
    return {"script": code(case.script), "loop": loop, **machine_in_words(case.hardware)}


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
    return panel(
        wall_bar(in_bar, whole=case.judged, id="wall", title="Wall time by row"),
        table(titles, lines, caption=caption, kind="wall"),
    )


def _row_in_words(case: Case, row: str, seconds: float) -> str:
    mean = case.per_step(seconds) if row in IN_STEP else None
    means = sentences.MEANS.get(row, "")
    return means if mean is None else f"{moment(mean)} a step: {means}"
