"""The page of a search: every trial with its ratio, the proof, and what only an edit can mend."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.tuning_result import untried
from hotloop.core.units import bytes_, duration, moment
from hotloop.report.axis import linear
from hotloop.report.document import document
from hotloop.report.markup import Html, code, join, missing, table, tag
from hotloop.report.sections import facts, section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.tuning_result import Edit, FixedCost, Tuned, TuneRow

__all__ = ["page"]


def page(found: Tuned) -> str:
    """Return the result of a search as HTML."""
    rows = [*found.rows, *([found.proof] if found.proof else [])]
    name = _name(found.target)
    header = tag(
        "header",
        tag("div", tag("h1", name, " ", tag("small", "tune")), class_="top"),
        tag(
            "div",
            tag("p", tag("strong", found.said)),
            tag("p", found.stopped) if found.stopped else "",
            *(tag("p", note, class_="soft") for note in found.notes),
            class_=f"callout verdict {'complete' if found.is_proved else 'plain'}",
        ),
        tag("div", facts(_about(found)), class_="about"),
    )
    main = tag(
        "main",
        section("What was tried", _trials([row for row in rows if row.plan is not None])),
        section("What was not", _untried(rows)),
        section("What is paid besides the steps", _costs(found.costs)),
        section("What only an edit can mend", _edits(found.edits)),
    )
    return document(f"{name}: what hotloop tune found", header, main)


def _name(target: Sequence[str]) -> str:
    """Return the script, module or recipe without its folder."""
    words = [word for word in target if word != "-m"]
    return Path(words[0]).name if words else "nothing"


def _about(found: Tuned) -> dict[str, object]:
    lines = found.plan.differences(found.baseline)
    plan = join([tag("div", code(str(use))) for use in found.plan.techniques])
    return {
        "target": code(shlex.join(found.target)),
        "plan": plan if found.plan.techniques else "as it was" if not lines else "; ".join(lines),
        "time": duration(found.seconds),
        **found.where,
    }


def _trials(rows: Sequence[TuneRow]) -> Html:
    widest = max((max(1.0, 1 / low) for row in rows if (low := _low(row)) is not None), default=1.0)
    lines: list[Sequence[object]] = [
        (
            row.name,
            row.decision,
            _interval(row, widest),
            "" if row.step_time is None else moment(row.step_time.median),
            "" if row.peak_bytes is None else bytes_(row.peak_bytes),
            "" if not row.pays_back else f"{row.pays_back:,} steps",
            row.why,
        )
        for row in rows
    ]
    titles = ("what", "decision", "times as fast", "a step", "memory", "pays back", "why")
    caption = (
        "How many times as fast as the best plan until then (the last row: as it was at first), "
        "with an interval of 99 %, of these processes. Same steps, by turns."
    )
    return tag("div", table(titles, lines, caption=caption, kind="list trials"), class_="panel")


def _untried(rows: Sequence[TuneRow]) -> Html:
    """Return what no process of its own was started for, by reason."""
    groups = untried(rows)
    if not groups:
        return missing("Everything was.")
    lines = (
        tag("li", tag("strong", ", ".join(names)), f": {decision}; {why}")
        for (decision, why), names in groups.items()
    )
    return tag("ul", *lines, class_="notes panel")


def _low(row: TuneRow) -> float | None:
    found = row.comparison
    return None if found is None or found.interval is None else found.interval[0]


def _interval(row: TuneRow, widest: float) -> object:
    """Return the ratio in figures and, where it has an interval, as a bar on a common axis."""
    found = row.comparison
    if found is None or found.ratio is None:
        return ""
    if found.interval is None:
        return found.factor
    low, high = 1 / found.interval[1], 1 / found.interval[0]
    axis = linear((0.0, max(widest, 1.2)), ticks=2, tight=True)
    at = {"x1": f"{axis.at(low):.2%}", "x2": f"{axis.at(high):.2%}"}
    one = f"{axis.at(1.0):.2%}"
    drawn = tag(
        "svg",
        tag("title", found.factor),
        tag("line", class_="grid", x1=one, x2=one, y1="0", y2="100%"),
        tag("line", class_="line a", y1="50%", y2="50%", **at),
        tag("circle", class_="point a", cx=f"{axis.at(1 / found.ratio):.2%}", cy="50%", r="4"),
        class_="interval",
        width="100%",
        height="16",
        role="img",
    )
    return join([found.factor, drawn])


def _costs(costs: Sequence[FixedCost]) -> Html:
    if not costs:
        return missing("Nothing was measured.")
    lines: list[Sequence[object]] = [
        (
            cost.what,
            moment(cost.before),
            "" if cost.after is None else moment(cost.after),
            cost.note,
        )
        for cost in costs
    ]
    titles = ("what", "as it was", "under the plan", "note")
    caption = "Paid once, or now and then."
    return tag("div", table(titles, lines, caption=caption, kind="list"), class_="panel")


def _edits(edits: Sequence[Edit]) -> Html:
    if not edits:
        return missing("The doctor found nothing that a technique cannot mend.")
    lines: list[Sequence[object]] = [
        (
            edit.rule,
            "" if edit.share is None else f"{edit.share:.0%}",
            edit.claim,
            join([tag("div", code(f"{place.file}:{place.line}")) for place in edit.places[:6]]),
            edit.remedy,
        )
        for edit in edits
    ]
    return tag(
        "div",
        table(("rule", "share", "what", "where", "remedy"), lines, caption="", kind="list"),
        class_="panel",
    )
