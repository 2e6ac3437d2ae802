"""The time limit ends a planned run long before its learning-rate schedule is over.

Looks at: training.max_time against the forecast of the whole run.
Says so when: before a run, the limit is shorter than the forecast.
Stays silent when: there is no limit, or the run fits in it.
Remedy: as many steps as fit into the time (training.max_steps), or go on later with --resume.
Numbers: the run changes: the learning rate comes down within the time.
Seen: tests/diagnosis/checks/test_speed.py.
Source: hotloop
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R7",
    name="cut_by_time",
    title="A time limit ends the run before its schedule",
    page=__doc__ or "",
    numerics="training",
    kind="correctness",
)
