"""The rows of a planned run hold so little of a class or a task, or so much of one, that accuracy
says little.

Looks at: the training rows of each class, or of each task of a router.
Says so when: before a run, a note: a class has fewer than ten rows, one class has 90 % of the rows,
    or a task has less than 2 % of them.
Stays silent when: the rows are spread more evenly.
Remedy: class weights, another metric (metric=macro_f1), or other sizes of the tasks.
Numbers: the run changes with class weights or other rows; another metric changes nothing in what is
    trained.
Seen: tests/diagnosis/checks/test_labels.py, tests/diagnosis/checks/test_tasks.py.
Source: hotloop
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R10",
    name="rare_class",
    title="A class or task with hardly any rows",
    page=__doc__ or "",
    numerics="training",
    kind="planning",
)
