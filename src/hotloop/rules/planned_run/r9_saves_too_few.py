"""A planned run saves so seldom that a crash can cost much of its work.

Looks at: training.save_every and training.save_every_steps against the forecast of the run.
Says so when: before a run, 20 minutes or more can pass between two checkpoints.
Stays silent when: checkpoints come more often, or the whole run is shorter.
Remedy: training.save_every=600s, the default.
Numbers: nothing.
Seen: tests/diagnosis/test_planned_time.py.
Source: hotloop
"""

from hotloop.core.units import duration
from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule

__all__ = ["RULE"]

AT_RISK = 1200.0  # seconds of work that a crash may cost without a finding


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Take the time between two saves as the cost of a crash."""
    if planned.settings is None or planned.time is None:
        return None
    run, time = planned.settings, planned.time
    between = run.save_every
    if run.save_every_steps:
        between = min(between, run.save_every_steps * time.seconds / time.steps)
    if min(between, time.seconds) < AT_RISK:
        return None
    lost = "the whole run" if between >= time.seconds else duration(between)
    return Finding(
        claim=f"a crash can cost {lost}: nothing is saved in between",
        severity="warn",
        remedies=[Remedy(text="training.save_every=600s, the default")],
    )


RULE = Rule(
    title="Too much work between two checkpoints",
    before_run=judge,
    kind="planning",
)
