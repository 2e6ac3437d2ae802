"""The page of a search: all trials with their ratios, the proof, and edits to make by hand."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.tuning_result import untried
from hotloop.core.units import bytes_, duration, moment
from hotloop.report.axis import linear
from hotloop.report.document import document
from hotloop.report.markup import Html, code, join, missing, notes, panel, table, tag
from hotloop.report.sections import facts, section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.tuning_result import Edit, FixedCost, Tuned, TuneRow

__all__ = ["page"]


def page(result: Tuned) -> str:
    """Return the result of a search as HTML."""
    rows = [*result.rows, *([result.proof] if result.proof else [])]
    name = _name(result.target)
    header = tag(
        "header",
        tag("div", tag("h1", name, " ", tag("small", "tune")), class_="top"),
        tag(
            "div",
            tag("p", tag("strong", result.said)),
            tag("p", result.stopped) if result.stopped else "",
            *(tag("p", note, class_="soft") for note in result.notes),
            class_=f"callout verdict {'complete' if result.is_proved else 'plain'}",
        ),
        tag("div", facts(_about(result)), class_="about"),
    )
    main = tag(
        "main",
        section("What was tried", _trials([row for row in rows if row.plan is not None])),
        section("What was not", _untried(rows)),
        section("What is paid besides the steps", _costs(result.costs)),
        section("What only an edit can mend", _edits(result.edits)),
    )
    return document(f"{name}: what hotloop tune found", header, main)


def _name(target: Sequence[str]) -> str:
    """Return the script, module or recipe without its folder."""
    words = [word for word in target if word != "-m"]
    return Path(words[0]).name if words else "nothing"


def _about(result: Tuned) -> dict[str, object]:
    lines = result.plan.differences(result.baseline)
    plan = join([tag("div", code(str(use))) for use in result.plan.techniques])
    return {
        "target": code(shlex.join(result.target)),
        "plan": plan if result.plan.techniques else "as it was" if not lines else "; ".join(lines),
        "time": duration(result.seconds) + (f": {result.spent}" if result.spent else ""),
        **result.where,
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
            "" if not row.seconds else duration(row.seconds),
            row.why,
        )
        for row in rows
    ]
    titles = ("what", "decision", "times as fast", "a step", "memory", "pays back", "took", "why")
    caption = (
        "How many times as fast as the best plan until then (the last row: as it was at first), "
        "with an interval of 99 %, of these processes. Same steps, by turns."
    )
    return panel(table(titles, lines, caption=caption, kind="list trials"))


def _untried(rows: Sequence[TuneRow]) -> Html:
    """Return the moves that no trial was started for, by reason."""
    lines = (
        join([tag("strong", ", ".join(names)), f": {decision}; {why}"])
        for (decision, why), names in untried(rows).items()
    )
    return notes(lines, none="Everything was.")


def _low(row: TuneRow) -> float | None:
    comparison = row.comparison
    return None if comparison is None or comparison.interval is None else comparison.interval[0]


def _interval(row: TuneRow, widest: float) -> object:
    """Return the ratio as text and, if it has an interval, as a bar on a common axis."""
    comparison = row.comparison
    if comparison is None or comparison.ratio is None:
        return ""
    if comparison.interval is None:
        return comparison.factor
    low, high = 1 / comparison.interval[1], 1 / comparison.interval[0]
    axis = linear((0.0, max(widest, 1.2)), ticks=2, tight=True)
    line_ends = {"x1": f"{axis.at(low):.2%}", "x2": f"{axis.at(high):.2%}"}
    parity = f"{axis.at(1.0):.2%}"
    bar = tag(
        "svg",
        tag("title", comparison.factor),
        tag("line", class_="grid", x1=parity, x2=parity, y1="0", y2="100%"),
        tag("line", class_="line a", y1="50%", y2="50%", **line_ends),
        tag("circle", class_="point a", cx=f"{axis.at(1 / comparison.ratio):.2%}", cy="50%", r="4"),
        class_="interval",
        width="100%",
        height="16",
        role="img",
    )
    return join([comparison.factor, bar])


def _costs(costs: Sequence[FixedCost]) -> Html:
    if not costs:
        return missing("Nothing was measured.")
    lines = [
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
    return panel(table(titles, lines, caption=caption, kind="list"))


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
    titles = ("rule", "share", "what", "where", "remedy")
    return panel(table(titles, lines, caption="", kind="list"))
