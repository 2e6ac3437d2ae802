"""Findings about a row of the predicted wall time of a planned run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.finding import ABSTAIN, Finding, by_share
from hotloop.core.units import duration

if TYPE_CHECKING:
    from hotloop.core.case.planned_run import TimeForecast

__all__ = ["not_worth_it", "of_row"]


def of_row(time: TimeForecast, row: str, **fields: Any) -> Finding:
    """Return a finding about a row; `fields` are passed to the Finding."""
    share = time.share(row)
    return Finding(
        severity=by_share(share),
        share=share,
        saves=time.rows[row] / time.steps,
        ceiling=1 / (1 - share),
        **fields,
    )


def not_worth_it(time: TimeForecast, row: str, *, what: str) -> Finding | None:
    """Return the largest gain from a faster row as a finding; None if it is worth it, or zero."""
    share = time.share(row)
    if not 0 < share < ABSTAIN:
        return None
    return Finding(
        kind="not worth it",
        claim=f"{what} saves at most {duration(time.rows[row])} ({share:.1%})",
        severity="note",
        share=share,
        ceiling=1 / (1 - share),
    )
