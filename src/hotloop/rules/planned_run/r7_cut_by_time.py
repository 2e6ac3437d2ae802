"""The time limit ends a planned run long before its learning-rate schedule is over.

Looks at: training.max_time against the forecast of the whole run.
Says so when: before a run, the limit is shorter than the forecast.
Stays silent when: there is no limit, or the run fits in it.
Remedy: as many steps as fit into the time (training.max_steps), or go on later with --resume.
Numbers: the run changes: the learning rate comes down within the time.
Seen: tests/diagnosis/test_planned_time.py.
Source: hotloop
"""

from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule, option

__all__ = ["RULE"]


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Compare the limit with the forecast."""
    if planned.settings is None or planned.time is None:
        return None
    limit, time = planned.settings.max_time, planned.time
    if limit is None or limit >= time.seconds:
        return None
    return Finding(
        claim=f"training.max_time={limit:g} s ends the run after about {limit / time.seconds:.0%} "
        f"of its {time.steps:,} steps: the learning rate never comes down",
        severity="warn",
        remedies=[
            Remedy(text=f"training.max_steps={int(time.steps * limit / time.seconds)}"),
            option("go on later with --resume"),
        ],
    )


RULE = Rule(
    title="A time limit ends the run before its schedule",
    before_run=judge,
    numerics="training",
    kind="correctness",
)
