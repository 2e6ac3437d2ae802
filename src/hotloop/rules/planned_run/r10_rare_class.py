"""The rows of a planned run hold so little of a class or a task, or so much of one, that accuracy
says little.

Looks at: the training rows of each class, or of each task of a router.
Says so when: before a run, a note: a class has fewer than ten rows, one class has 90 % of the rows,
    or a task has less than 2 % of them.
Stays silent when: the rows are spread more evenly.
Remedy: class weights, another metric (metric=macro_f1), or other sizes of the tasks.
Numbers: the run changes with class weights or other rows; another metric changes nothing in what is
    trained.
Seen: tests/diagnosis/test_planned_labels.py, tests/diagnosis/test_planned_tasks.py.
Source: hotloop
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule

if TYPE_CHECKING:
    from hotloop.core.case.planned_run import RowFacts

__all__ = ["RULE"]

RARE = 10  # training rows of a class: fewer are too few to generalise
MOSTLY = 0.9  # share of one class in the training rows: a constant answer looks good
FEW = 0.02  # of the training rows: a router is mostly right without ever taking that task


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Count the rows of each class or task."""
    data = planned.data
    if data is None or data.rows is None or not data.rows.counts:
        return None
    return _task(data.rows) if data.kind == "tasks" else _class(data.rows)


def _class(rows: RowFacts) -> Finding | None:
    counts, total = rows.counts, sum(rows.counts.values())
    most = max(counts, key=lambda name: counts[name])
    if rare := [f"{name!r} has {count}" for name, count in counts.items() if count < RARE]:
        more = f" and {len(rare) - 5} more" if rare[5:] else ""
        claim = f"{', '.join(rare[:5])}{more} training rows"
    elif counts[most] >= MOSTLY * total:
        claim = f"{counts[most] / total:.0%} of the training rows are of class {most!r}"
    else:
        return None
    return Finding(
        claim=f"{claim}: accuracy says little of such data",
        severity="note",
        evidence={"judged by": rows.metric or "unknown"},
        remedies=[
            Remedy(text="class_weights=balanced makes a rare class count as much"),
            Remedy(text="metric=macro_f1 judges by all classes alike"),
        ],
    )


def _task(rows: RowFacts) -> Finding | None:
    counts, total = rows.counts, sum(rows.counts.values())
    least = min(counts, key=lambda name: counts[name])
    if counts[least] >= FEW * total:
        return None
    return Finding(
        claim=f"{counts[least]:,} of {total:,} training rows are of {least}: "
        "its adapter is hardly trained, and routing is mostly right without it",
        severity="note",
        remedies=[Remedy(text="limit the other tasks (data.sizes={task: rows}), or leave it out")],
    )


RULE = Rule(
    title="A class or task with hardly any rows",
    before_run=judge,
    numerics="training",
    kind="planning",
    known="proved",
)
