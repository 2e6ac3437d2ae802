"""The doctor's findings as markup: claim, cost, lines of code, evidence, remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.report.excerpt import excerpt, visible, where
from hotloop.report.markup import Html, code, join, missing, notes, tag
from hotloop.report.sections import facts
from hotloop.report.sentences import (
    WORDS,
    cost,
    counted,
    folder_of,
    leading,
    name,
    others,
    reading,
    remedies,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Finding, Severity, SourceLocation

__all__ = ["LOOKS", "findings", "machine", "not_worth_it"]

AROUND = 3  # lines shown before and after the line of the finding
MOST_PLACES = 4  # most places shown as code; the others are listed
LOOKS: dict[Severity | None, str] = {
    "critical": "failed",
    "warn": "stopped",
    "note": "plain",
    None: "complete",
}


def findings(case: Case, all_findings: Sequence[Finding]) -> Html:
    """Return the findings that lead, and below them the others, folded."""
    if not all_findings:
        return missing("There is none.")
    first, rest = leading(all_findings), others(all_findings)
    shown = _list(case, first, 1) if first else ""
    if not rest:
        return join([shown])
    words = f"All findings: {counted(rest)}{' more' if first else ''}"
    folded = tag("details", tag("summary", words), _list(case, rest, len(first) + 1))
    return join([shown, folded])


def _list(case: Case, shown: Sequence[Finding], start: int) -> Html:
    return tag("ol", *(_finding(case, each) for each in shown), class_="findings", start=start)


def machine(case: Case, findings_of_machine: Sequence[Finding]) -> Html:
    """Return what surrounds the run, each with its remedies."""
    return _list(case, findings_of_machine, 1)


def not_worth_it(judgements: Sequence[Finding]) -> Html:
    """Return the findings that are not worth a change, each with its share."""
    lines = []
    for finding in judgements:
        share = "" if finding.share is None else f" ({finding.share:.1%} of the wall time)"
        lines.append(join([tag("strong", finding.rule), f": {finding.claim.rstrip('. ')}{share}."]))
    return notes(lines, none="Nothing was set aside.")


def _finding(case: Case, finding: Finding) -> Html:
    word = tag("span", WORDS[finding.severity], class_=f"pill {LOOKS[finding.severity]}")
    known = tag("span", f" {finding.known}", class_="soft") if finding.known else ""
    here = folder_of(case)
    return tag(
        "li",
        tag("p", word, " ", tag("code", finding.rule), known, class_="top"),
        tag("h3", finding.claim),
        tag("p", "; ".join(cost(finding)), class_="cost") if cost(finding) else "",
        *(_place(case, place, here) for place in finding.places[:MOST_PLACES]),
        _more([where(place, here) for place in finding.places[MOST_PLACES:]]),
        _evidence(finding),
        _remedies(case, finding),
        class_="panel",
    )


def _place(case: Case, place: SourceLocation, here: str) -> Html:
    """Return the lines around a place; its own line has a mark as well as a colour."""
    lines = excerpt(case, place, around=AROUND)
    head = tag("p", code(where(place, here)), class_="place")
    if not lines:
        return head
    spans = (
        tag(
            "span",
            f"{'>' if number == place.line else ' '}{number:>5}  {text}",
            class_="code hot" if number == place.line else "code",
        )
        for number, text in lines
    )
    label = f"{where(place, here)}, line {place.line} is meant"
    return join([head, tag("pre", *spans, class_="excerpt", role="group", aria_label=label)])


def _more(places: Sequence[str]) -> Html:
    if not places:
        return Html()
    return tag("p", "and ", Html(", ".join(map(code, places))), class_="place")


def _evidence(finding: Finding) -> Html:
    rows: dict[str, object] = {key: reading(value) for key, value in finding.evidence.items()}
    if finding.because:
        rows["because of"] = tag("ul", *(tag("li", visible(c)) for c in finding.because))
    return tag("div", facts(rows), class_="below") if rows else Html()


def _remedies(case: Case, finding: Finding) -> Html:
    if not finding.remedies:
        return Html()
    lines = (
        tag("li", text, tag("pre", typed, class_="excerpt") if typed else "")
        for text, typed in remedies(case, finding, name(case))
    )
    return tag("ul", *lines, class_="remedies")
