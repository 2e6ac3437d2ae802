"""The warm-up of a planned run is so long that the peak learning rate comes late or never.

Looks at: training.warmup_steps against the steps of the run.
Says so when: before a run, the warm-up takes more than a third of the steps; critical where it
    takes all of them.
Stays silent when: the warm-up is shorter.
Remedy: a tenth of the steps, as usual.
Numbers: the run changes: another schedule.
Seen: tests/diagnosis/test_planned_settings.py.
Source: hotloop
"""

from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule

__all__ = ["RULE"]

WARM_UP = 1 / 3  # of the steps; a tenth is usual


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Compare the warm-up with the run."""
    run = planned.settings
    if run is None or run.warm_up <= WARM_UP * run.steps:
        return None
    never = run.warm_up >= run.steps
    return Finding(
        claim=f"a warm-up of {run.warm_up} of {run.steps:,} steps: the peak learning rate "
        + (
            "is never reached" if never else f"comes after {run.warm_up / run.steps:.0%} of the run"
        ),
        severity="critical" if never else "warn",
        remedies=[Remedy(text=f"training.warmup_steps={run.steps // 10} is a tenth, as usual")],
    )


RULE = Rule(
    title="The warm-up takes much of the run",
    before_run=judge,
    numerics="training",
    kind="correctness",
    known="proved",
)
