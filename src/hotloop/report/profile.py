"""Results of --profile and --ceilings: the hottest operators, and runs without one cost."""

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
    """Return the ten operators with the most time in a step, the hottest first."""
    return sorted(case.operators, key=lambda operator: -operator.seconds)[:MOST]


def ceiling_in_words(ceiling: Ceiling) -> str:
    """Return the result of a run without one cost, or why it was not made."""
    time = reading(Measurement(unit="s", readings=ceiling.step_time)) if ceiling.step_time else None
    if ceiling.factor is None and time is None:
        return f"not measured: {ceiling.why_not or 'no reason was given'}"
    known = ceiling.factor is not None and ceiling.name != "baseline"
    factor = f"at most {ceiling.factor:.2f}x" if known else None
    return "; ".join(filter(None, (factor, time, ceiling.why_not)))


def operators(case: Case) -> Html:
    """Return the hottest operators as a table."""
    hottest = operators_by_time(case)
    if not hottest:
        return missing("Not measured: hotloop doctor --profile does it, in a short run of its own.")
    titles = ("operator", "cost", "calls", "shapes", "place")
    return table(
        titles, map(tuple, _operator_rows(case, hottest)), kind="list places",
        caption="Self time and calls in a profiled step, of which it is the share.",
    )  # fmt: skip


def _operator_rows(case: Case, hottest: list[Operator]) -> Iterator[list[object]]:
    for operator in hottest:
        yield [
            code(operator.name),
            f"{moment(operator.seconds)}, {operator.share:.1%}",
            f"{operator.calls:.4g}",
            " ".join(filter(None, (operator.device, operator.dtype, operator.shapes))),
            code(where(operator.place, folder_of(case))) if operator.place else "unknown",
        ]


def ceilings(case: Case) -> Html:
    """Return a table with the results of short runs that each leave out one cost."""
    if not case.ceilings:
        return missing("Not measured: hotloop doctor --ceilings does it, in short runs of its own.")
    rows = [(TAKEN_AWAY[ceiling.name], ceiling_in_words(ceiling)) for ceiling in case.ceilings]
    return table(
        ("run", "what was reached"), rows, kind="list",
        caption="Short runs of their own; factors against the baseline.",
    )  # fmt: skip
