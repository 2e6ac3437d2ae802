"""A planned run validates only after its last step, when overfitting can no longer be answered.

Looks at: how many validations the run makes.
Says so when: before a run, it makes one.
Stays silent when: it makes two or more.
Remedy: training.eval_every_steps, a tenth of the steps.
Numbers: nothing changes in what is trained.
Seen: tests/diagnosis/test_planned_settings.py.
Source: hotloop
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Count the validations."""
    if case.planned is None or case.planned.settings is None or case.planned.time is None:
        return None
    run = case.planned.settings
    if case.planned.time.validations > 1:
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
    judge=judge,
    needs=(Needs.PLANNED_RUN,),
    before_run=True,
    kind="planning",
)
