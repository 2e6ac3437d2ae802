"""A planned run validates only after its last step, when overfitting can no longer be answered.

Looks at: how many validations the run makes.
Says so when: before a run, it makes one.
Stays silent when: it makes two or more.
Remedy: training.eval_every_steps, a tenth of the steps.
Numbers: nothing changes in what is trained.
Seen: tests/diagnosis/checks/test_settings.py.
Source: hotloop
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R8",
    name="one_validation",
    title="The run validates once, at its end",
    page=__doc__ or "",
    kind="planning",
)
