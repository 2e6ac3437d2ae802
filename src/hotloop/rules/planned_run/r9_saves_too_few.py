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
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule

__all__ = ["RULE"]

AT_RISK = 1200.0  # seconds of work that a crash may cost without a finding


def judge(case: Case) -> Finding | None:
    """Take the time between two saves as the cost of a crash."""
    if case.planned is None or case.planned.settings is None or case.planned.time is None:
        return None
    run, time = case.planned.settings, case.planned.time
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
    judge=judge,
    needs=(Needs.PLANNED_RUN,),
    before_run=True,
    kind="planning",
)
