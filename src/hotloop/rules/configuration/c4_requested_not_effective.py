"""Something that the code or the configuration asks for is not in effect in the process.

Looks at: settings of known names (workers, batch size, accumulation, dtype, compile, fused,
    attention, checkpointing, pinning, packing) against what loaders, models and steps were.
Says so when: the two disagree. Before a run: a technique of the plan is refused, a batch is larger
    than the data, or training.patience is longer than the run.
Stays silent when: what is in effect is unknown, or nobody reads the key (C1).
Remedy: look where the value is lost; or take the setting out.
Numbers: nothing by itself.
Seen: examples/planted/asked_in_vain.py.
Source: four of the five projects (attention, compile, packing or workers asked for in vain).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.rules.base import Needs, Rule
from hotloop.rules.support.config_files import asked
from hotloop.rules.support.requested_effective import NAMES, in_effect

if TYPE_CHECKING:
    from hotloop.core.case.case import Case

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Read each setting back."""
    found = [
        (setting, seen)
        for topic, names in NAMES.items()
        for setting in asked(case, names)
        if (seen := in_effect(case, topic, setting.value or "")) is not None
    ]
    if not found:
        return None
    setting, seen = found[0]
    return Finding(
        rule=RULE.label,
        claim=f"{setting.key}={setting.value} is asked for and not in effect: {seen}",
        severity="warn",
        places=[setting.place for setting, _ in found if setting.place],
        evidence={setting.key: f"{setting.value} asked; {seen}" for setting, seen in found},
        remedies=[
            Remedy(
                text=f'follow "{setting.name}" from where it is read to where it should be used',
                effort="code edit",
            )
        ],
    )


RULE = Rule(
    id="C4",
    name="requested_not_effective",
    title="A setting that was asked for is not in effect",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="correctness",
)
