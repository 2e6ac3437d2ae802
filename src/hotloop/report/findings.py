"""The doctor's findings as markup: claim, cost, the lines of code, evidence, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.report.excerpt import excerpt, visible, where
from hotloop.report.markup import Html, code, join, missing, tag
from hotloop.report.sections import facts
from hotloop.report.sentences import WORDS, cost, folder_of, name, reading, remedies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Finding, Severity, SourceLocation

__all__ = ["LOOKS", "findings", "not_worth_it"]

AROUND = 3  # lines before and after the one that is meant
MOST_PLACES = 4  # shown as code; the rest is listed
LOOKS: dict[Severity | None, str] = {
    "critical": "failed",
    "warn": "stopped",
    "note": "plain",
    None: "complete",
}


def findings(case: Case, found: Sequence[Finding]) -> Html:
    """Return every finding, in the order of the report."""
    if not found:
        return missing("There is none.")
    return tag("ol", *(_finding(case, each) for each in found), class_="findings")


def not_worth_it(found: Sequence[Finding]) -> Html:
    """Return what was judged and found not worth a change, with its share."""
    if not found:
        return missing("Nothing was set aside.")
    lines = (
        tag("li", tag("strong", each.rule), ": ", each.claim.rstrip(". "), _share(each))
        for each in found
    )
    return tag("ul", *lines, class_="notes panel")


def _share(found: Finding) -> str:
    return "." if found.share is None else f" ({found.share:.1%} of the wall time)."


def _finding(case: Case, found: Finding) -> Html:
    word = tag("span", WORDS[found.severity], class_=f"pill {LOOKS[found.severity]}")
    here = folder_of(case)
    return tag(
        "li",
        tag("p", word, " ", tag("code", found.rule), class_="top"),
        tag("h3", found.claim),
        tag("p", "; ".join(cost(found)), class_="cost") if cost(found) else "",
        *(_place(case, place, here) for place in found.places[:MOST_PLACES]),
        _more([where(place, here) for place in found.places[MOST_PLACES:]]),
        _evidence(found),
        _remedies(case, found),
        class_="panel",
    )


def _place(case: Case, place: SourceLocation, here: str) -> Html:
    """Return the lines around a place; the one that is meant has a mark, not only a colour."""
    lines = excerpt(case, place, around=AROUND)
    head = tag("p", code(where(place, here)), class_="place")
    if not lines:
        return head
    drawn = (
        tag(
            "span",
            f"{'>' if number == place.line else ' '}{number:>5}  {text}",
            class_="code hot" if number == place.line else "code",
        )
        for number, text in lines
    )
    said = f"{where(place, here)}, line {place.line} is meant"
    return join([head, tag("pre", *drawn, class_="excerpt", role="group", aria_label=said)])


def _more(places: Sequence[str]) -> Html:
    if not places:
        return Html()
    return tag("p", "and ", join(_listed([code(place) for place in places])), class_="place")


def _listed(parts: Sequence[object]) -> list[object]:
    return [piece for part in parts for piece in (", ", part)][1:]


def _evidence(found: Finding) -> Html:
    rows: dict[str, object] = {key: reading(seen) for key, seen in found.evidence.items()}
    if found.because:
        rows["because of"] = tag("ul", *(tag("li", visible(c)) for c in found.because))
    return tag("div", facts(rows), class_="below") if rows else Html()


def _remedies(case: Case, found: Finding) -> Html:
    if not found.remedies:
        return Html()
    lines = (
        tag("li", text, tag("pre", typed, class_="excerpt") if typed else "")
        for text, typed in remedies(case, found, name(case))
    )
    return tag("ul", *lines, class_="remedies")
