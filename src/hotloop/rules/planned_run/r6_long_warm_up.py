"""The warm-up of a planned run is so long that the peak learning rate comes late or never.

Looks at: training.warmup_steps against the steps of the run.
Says so when: before a run, the warm-up takes more than a third of the steps; critical where it
    takes all of them.
Stays silent when: the warm-up is shorter.
Remedy: a tenth of the steps, as usual.
Numbers: the run changes: another schedule.
Seen: tests/diagnosis/checks/test_settings.py.
Source: hotloop
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R6",
    name="long_warm_up",
    title="The warm-up takes much of the run",
    page=__doc__ or "",
    numerics="training",
    kind="correctness",
)
