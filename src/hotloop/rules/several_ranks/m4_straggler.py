"""One process is slower than the others, which wait for it at each step.

Looks at: the time of each process's own work in a step, row by row; where they are known its
    tokens of a step, and its host.
Says so when: the slowest takes 10 % longer than the median (critical from 20 %), and one row
    explains 80 % of the difference, or forward, backward and update together do: then the process
    has more tokens to compute, or a slower processor or GPU. So it has in a run of hotloop train,
    whose processes all do the same, whichever of the three it is.
Stays silent when: all are alike, or what is slower has no one cause; and of hotloop train on GPUs,
    where only the host's clock was read.
Remedy: data wait: what that process reads. Computing: its clock, its temperature, other processes
    on its cores or its GPU; with more tokens, shares of equal length.
Numbers: none by looking.
Seen: examples/planted/first_rank_late.py.
Source: thresholds of TraceML.
"""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

from hotloop.core.units import moment
from hotloop.rules.base import WARN, Case, Finding, Needs, Remedy, Rule, SourceLocation, by_share
from hotloop.rules.support.costs import costing, hot_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["RULE"]

COVERED = 0.80  # share of the difference that one cause must explain
COMPUTE = ("forward", "backward", "optimizer")
ROWS = ("data wait", "prepare", "host to device", *COMPUTE, "after step")


def judge(case: Case) -> Finding | None:
    """Find the slowest process and the cause."""
    rows = {row: case.process.ranks[row] for row in ROWS if case.process.ranks.get(row)}
    if not rows or len({len(times) for times in rows.values()}) != 1:
        return None
    own = [sum(times) for times in zip(*rows.values(), strict=True)]
    typical, slowest = median_low(own), max(range(len(own)), key=own.__getitem__)
    late = own[slowest] - typical
    if typical <= 0 or late < WARN * typical:
        return None
    cause, words = _cause(case, rows, slowest, late)
    if not cause:
        return None
    rank = case.process.rank_at(slowest)
    who, more = case.process.named(rank), _more_tokens(case, rows, slowest)
    more = more if set(cause) <= set(COMPUTE) else None
    return costing(
        case,
        late * case.steps.count,
        severity=by_share(late / typical),
        claim=f"{who} takes {moment(late)} longer for each step than the others, which wait: "
        f"{words}{'' if more is None else f', of {more:.0%} more tokens'}",
        places=_lines(case, cause) if rank == case.process.rank else [],
        evidence={
            "own work": ", ".join(map(moment, own)),
            **{row: ", ".join(map(moment, rows[row])) for row in cause},
        },
        remedies=list(_remedies(who, cause, more)),
    )


def _cause(
    case: Case, rows: Mapping[str, Sequence[float]], slowest: int, late: float
) -> tuple[tuple[str, ...], str]:
    """Return the rows that explain the difference (one, those of computing, or none), and words."""
    over = {row: times[slowest] - median_low(times) for row, times in rows.items()}
    row = max(over, key=over.__getitem__)
    computing = tuple(row for row in COMPUTE if row in over)
    if over[row] >= COVERED * late:
        if case.by_hotloop and row in COMPUTE:
            return computing, f"computing (above all {row})"
        return (row,), row
    if sum(over[row] for row in computing) >= COVERED * late:
        return computing, "computing (forward, backward and update alike)"
    return (), ""


def _more_tokens(case: Case, rows: Mapping[str, Sequence[float]], slowest: int) -> float | None:
    """Return the surplus of tokens of the slowest rank, if it explains the delay; else None."""
    tokens = case.process.ranks.get("tokens", ())
    computing = [sum(times) for times in zip(*(rows[r] for r in COMPUTE if r in rows), strict=True)]
    if len(tokens) != len(computing) or not tokens or median_low(tokens) <= 0:
        return None
    more = tokens[slowest] / median_low(tokens) - 1
    longer = computing[slowest] / (median_low(computing) or computing[slowest]) - 1
    return more if more >= COVERED * longer > 0 else None


def _remedies(who: str, cause: Sequence[str], more: float | None) -> Iterator[Remedy]:
    if more is not None:
        yield Remedy(text="give each process as many tokens: share out rows of like length")
    elif cause == ("data wait",):
        yield Remedy(text=f"look at what {who} reads: its files, its disk or network, its cores")
    elif set(cause) <= set(COMPUTE):
        if len(cause) == 1:
            yield Remedy(text=f"look at what {who} alone does in {cause[0]}")
        yield Remedy(
            text=f"look at the processor or GPU of {who}: its clock, its temperature, other "
            "processes on its cores or its GPU"
        )
    else:
        yield Remedy(text=f"look at {cause[0]} of {who}: data, GPU, cores")


def _lines(case: Case, rows: Sequence[str]) -> list[SourceLocation]:
    stacks = [stack for stack in case.stacks if stack.row in rows]
    return hot_path(case, stacks) if stacks else []


RULE = Rule(
    title="One process makes all others wait",
    judge=judge,
    needs=(Needs.STEPS, Needs.RANKS),
    weight=2,
)
