"""The learning rate of a planned run is far from what models of its size usually take.

Looks at: training.learning_rate and the number of parameters of a model that is trained from
    scratch.
Says so when: before a run, the rate is ten times above or below a rule of thumb for Adam. A note.
Stays silent when: the rate is within that range, or the run starts from trained weights.
Remedy: the rate of the rule of thumb, unless the rate was tuned.
Numbers: the run changes: another learning rate.
Seen: tests/diagnosis/test_planned_settings.py.
Source: Kaplan et al., "Scaling Laws for Neural Language Models", arXiv 2001.08361, 2020, appendix
    D.6; the factor 10 is hotloop's.
"""

import math

from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule

__all__ = ["RULE"]

RATE_FACTOR = 10  # off the rule of thumb, either way


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Compare the rate with the rule of thumb."""
    run = planned.settings
    if run is None or not run.from_scratch:
        return None
    usual = 0.003239 - 0.0001395 * math.log(run.parameters)
    factor = run.learning_rate / usual if usual > 0 else 1.0
    if 1 / RATE_FACTOR < factor < RATE_FACTOR:
        return None
    times = f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"
    return Finding(
        claim=f"training.learning_rate={run.learning_rate:g} is {times} what a model of "
        f"{run.parameters:,} parameters usually takes",
        severity="warn",
        evidence={"rule of thumb": f"{usual:.2g} (arXiv 2001.08361, appendix D.6)"},
        remedies=[Remedy(text=f"training.learning_rate={usual:.1g}, if the rate was not tuned")],
    )


RULE = Rule(
    title="The learning rate is far from the usual",
    before_run=judge,
    numerics="training",
    kind="planning",
    known="read",
)
