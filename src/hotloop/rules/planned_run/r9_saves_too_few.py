"""A planned run saves so seldom that a crash can cost much of its work.

Looks at: training.save_every and training.save_every_steps against the forecast of the run.
Says so when: before a run, 20 minutes or more can pass between two checkpoints.
Stays silent when: checkpoints come more often, or the whole run is shorter.
Remedy: training.save_every=600s, the default.
Numbers: nothing.
Seen: tests/diagnosis/checks/test_speed.py.
Source: hotloop
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R9",
    name="saves_too_few",
    title="Too much work between two checkpoints",
    page=__doc__ or "",
    kind="planning",
)
