"""A planned run validates only after its last step, when overfitting can no longer be answered.

Looks at: how many validations the run makes.
Says so when: before a run, it makes one.
Stays silent when: it makes two or more.
Remedy: training.eval_every_steps, a tenth of the steps.
Numbers: nothing changes in what is trained.
Seen: tests/diagnosis/test_planned_settings.py.
Source: hotloop
"""

from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule

__all__ = ["RULE"]


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Count the validations."""
    if planned.settings is None or planned.time is None:
        return None
    run = planned.settings
    if planned.time.validations > 1:
        return None
    return Finding(
        claim="the run validates once, after its last step "
        f"({run.eval_interval or 'no interval is set'}, and the run has {run.steps:,} steps): "
        "overfitting is seen too late",
        severity="warn",
        remedies=[Remedy(text=f"training.eval_every_steps={max(1, run.steps // 10)}")],
    )


RULE = Rule(
    title="The run validates once, at its end",
    before_run=judge,
    kind="planning",
    known="proved",
)
