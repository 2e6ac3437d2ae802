"""The ledger of a run as a waterfall: each row can be opened, down to operators and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.case.ledger import MEANING, ONCE
from hotloop.core.finding import SourceLocation
from hotloop.report.chart import NARROWEST
from hotloop.report.excerpt import where
from hotloop.report.markup import Html, code, missing, table, tag
from hotloop.report.sentences import folder_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.ledger import LedgerLine, LedgerRow

__all__ = ["LOOKS", "basis", "once", "shown", "waterfall"]

LOOKS = {  # of the rows, as classes of page.css
    "start": "start",
    "import": "import",
    "compiling": "compile",
    "waiting for data": "wait",
    "waiting for the device": "sync",
    "exchanging": "exchange",
    "evaluating": "evaluate",
    "saving": "save",
    "logging": "log",
    "dead": "dead",
    "padding": "padding",
    "repeated": "repeated",
    "recomputed": "update",
    "frozen": "frozen",
    "moved": "copy",
    "inefficient": "backward",
    "useful": "step",
    "unaccounted": "step",
    "host": "prepare",
}


def shown(case: Case) -> list[LedgerRow]:
    """Return the rows to which shares refer, in the order of the waterfall."""
    if case.ledger is None:
        return []
    left_out = ONCE if case.judged < case.seconds else frozenset[str]()
    return [row for row in case.ledger.rows if row.name not in left_out]


def once(case: Case) -> list[LedgerRow]:
    """Return the rows of what a run that was stopped early does only once."""
    judged = {row.name for row in shown(case)}
    return [row for row in case.ledger.rows if row.name not in judged] if case.ledger else []


def basis(case: Case) -> str:
    """Return in a sentence what the rows inside the steps rest on."""
    if case.ledger is None:
        return ""
    if case.ledger.not_split is not None:
        return f"The steps are not split by operators: {case.ledger.not_split}."
    steps = f"{case.ledger.steps} step{'s' * (case.ledger.steps != 1)}"
    return f"The steps are split by {case.ledger.operations:,} operators, recorded in {steps}."


def waterfall(case: Case) -> Html:
    """Return the rows as a waterfall."""
    rows = shown(case)
    if not rows:
        return missing("Nothing was observed.")
    entries, left = [], 0.0
    for row in rows:
        share = case.part(row.seconds)
        entries.append(_entry(case, row, left, share))
        left += share
    caption = "Every second belongs to one row; hotloop's own time is in none."
    if times := ", ".join(f"{row.name} {row.seconds:,.2f} s" for row in once(case)):
        caption += f" Once, in no share: {times}."
    return tag(
        "div",
        tag("p", caption, " ", basis(case), class_="note"),
        *entries,
        class_="panel ledger",
    )


def _entry(case: Case, row: LedgerRow, left: float, share: float) -> Html:
    bar = tag(
        "rect",
        class_=f"row {LOOKS.get(row.name, 'rest')}",
        x=f"{left:.3%}",
        width=f"{share:.3%}",
        height="100%",
    )
    name = tag("strong", row.name) if row.avoidable else row.name
    head = (
        tag("span", name, class_="name"),
        tag("svg", bar if share >= NARROWEST else "", class_="fall", aria_hidden="true"),
        tag("span", f"{row.seconds:,.2f} s", class_="figure"),
        tag("span", f"{share:.1%}", class_="figure"),
    )
    inside = [tag("p", _in_words(case, row), class_="note")]
    if row.lines:
        inside.append(_lines(case, row.lines))
    return tag("details", tag("summary", *head), *inside)


def _in_words(case: Case, row: LedgerRow) -> str:
    words = MEANING.get(row.name, "")
    sentence = f"{words[:1].upper()}{words[1:]}."
    if row.place is not None:
        sentence += f" Most of it is spent at {where(row.place, folder_of(case))}."
    if row.avoidable and row.needed:
        sentence += f" {row.needed:,.2f} s of it are within the allowance, and not avoidable."
    if row.again:
        sentence += f" {row.again:,.2f} s of it are for samples that were equal an epoch before."
    return sentence


def _lines(case: Case, lines: Sequence[LedgerLine]) -> Html:
    here = folder_of(case)
    cells = []
    for line in lines:
        own = [frame for frame in line.calls if frame.own]
        chain = " < ".join(
            where(SourceLocation(file=frame.file, line=frame.line), here) for frame in own[1:]
        )
        place = "a library" if line.place is None else where(line.place, here)
        per_cent = f"{case.part(line.seconds):.1%}"
        cells.append((code(place), code(line.what), f"{line.seconds:,.2f}", per_cent, chain))
    titles = ("line", "mostly in", "seconds", "share", "called from")
    return table(titles, cells, caption="The most expensive lines of this row.", kind="list")
