"""What --profile and --ceilings measured: the hottest operators, and runs without one cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.measurement import Measurement
from hotloop.core.units import moment
from hotloop.report.excerpt import where
from hotloop.report.markup import Html, code, missing, table
from hotloop.report.sentences import folder_of, reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.case import Case
    from hotloop.core.case.environment import Ceiling, Operator

__all__ = ["TAKEN_AWAY", "ceiling_in_words", "ceilings", "operators", "operators_by_time"]

MOST = 10
TAKEN_AWAY = {  # by the name of the child run
    "baseline": "baseline: nothing taken away",
    "compute": "compute alone: batches replayed, none loaded",
    "no logging": "no logging",
    "no optimizer": "no optimizer update",
    "loader alone": "loader alone: no training",
}


def operators_by_time(case: Case) -> list[Operator]:
    """Return the ten operators that take most of a step, the hottest first."""
    return sorted(case.operators, key=lambda each: -each.seconds)[:MOST]


def ceiling_in_words(each: Ceiling) -> str:
    """Return what a run without one cost reached, or why it was not made."""
    time = reading(Measurement(unit="s", readings=each.step_time)) if each.step_time else None
    if each.factor is None and time is None:
        return f"not measured: {each.why_not or 'no reason was given'}"
    known = each.factor is not None and each.name != "baseline"
    factor = f"at most {each.factor:.2f}x" if known else None
    return "; ".join(filter(None, (factor, time, each.why_not)))


def operators(case: Case) -> Html:
    """Return the hottest operators as a table."""
    shown = operators_by_time(case)
    if not shown:
        return missing("Not measured: hotloop doctor --profile does it, in a short run of its own.")
    titles = ("operator", "cost", "calls", "shapes", "place")
    return table(
        titles, map(tuple, _operator_rows(case, shown)), kind="list places",
        caption="Self time and calls in a profiled step, of which it is the share.",
    )  # fmt: skip


def _operator_rows(case: Case, shown: list[Operator]) -> Iterator[list[object]]:
    for each in shown:
        yield [
            code(each.name),
            f"{moment(each.seconds)}, {each.share:.1%}",
            f"{each.calls:.4g}",
            " ".join(filter(None, (each.device, each.dtype, each.shapes))),
            code(where(each.place, folder_of(case))) if each.place else "unknown",
        ]


def ceilings(case: Case) -> Html:
    """Return what short runs with one cost taken away reached, as a table."""
    if not case.ceilings:
        return missing("Not measured: hotloop doctor --ceilings does it, in short runs of its own.")
    rows = [(TAKEN_AWAY[each.name], ceiling_in_words(each)) for each in case.ceilings]
    return table(
        ("run", "what was reached"), rows, kind="list",
        caption="Short runs of their own; factors against the baseline.",
    )  # fmt: skip
