"""One process is slower than the others, which wait for it at each step.

Looks at: the time of each process's own work in a step, row by row.
Says so when: the slowest takes 10 % longer than the median (critical from 20 %), and one row
    explains 80 % of the difference.
Stays silent when: all are alike, or no row explains it.
Remedy: look at the named row on the named process: its data, its card, its cores.
Numbers: none by looking.
Seen: examples/planted/first_rank_late.py.
Source: thresholds of TraceML.
"""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

from hotloop.core.finding import WARN, Remedy, by_share
from hotloop.core.units import moment
from hotloop.judging.costing import costing, hot_path
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding, Place

__all__ = ["RULE"]

COVERED = 0.80  # of the difference, by one row
ROWS = ("data wait", "prepare", "host to device", "forward", "backward", "optimizer", "after step")


def judge(case: Case) -> Finding | None:
    """Find the slowest process and the row that makes it so."""
    rows = {row: case.process.ranks[row] for row in ROWS if case.process.ranks.get(row)}
    if not rows or len({len(times) for times in rows.values()}) != 1:
        return None
    own = [sum(times) for times in zip(*rows.values(), strict=True)]
    typical, slowest = median_low(own), max(range(len(own)), key=own.__getitem__)
    late = own[slowest] - typical
    if typical <= 0 or late < WARN * typical:
        return None
    over = {row: times[slowest] - median_low(times) for row, times in rows.items()}
    row = max(over, key=over.__getitem__)
    if over[row] < COVERED * late:
        return None
    return costing(
        case,
        late * case.steps.count,
        severity=by_share(late / typical),
        rule=RULE.label,
        claim=f"process {slowest} takes {moment(late)} longer for each step than the others, "
        f"which wait: {row}",
        places=_lines(case, row) if slowest == case.process.rank else [],
        evidence={"own work": ", ".join(moment(seconds) for seconds in own)},
        remedies=[Remedy(text=f"look at {row} of process {slowest}: data, card, cores")],
    )


def _lines(case: Case, row: str) -> list[Place]:
    stacks = [stack for stack in case.stacks if stack.row == row]
    return hot_path(case, stacks) if stacks else []


RULE = Rule(
    id="M4",
    name="straggler",
    title="One process makes all others wait",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.RANKS),
    weight=2,
)
