"""Most batches are ready in time, some come so late that the loop waits.

Looks at: the waits of loaders with workers, the first of each epoch left out.
Says so when: of 40 waits or more, one in twenty is 5 times the median or more, the median is below
    5 % of a step, and the late ones cost 2 % of the wall time.
Stays silent when: the workers are too slow altogether (D6, D7).
Remedy: a longer queue: prefetch_factor.
Numbers: bitwise the same.
Seen: golden case only.
Source: gpuprof for the fivefold; prefetch_factor measured bitwise for RULES (torch 2.13).
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN, Remedy
from hotloop.core.units import moment
from hotloop.judging.waiting import costs, feeding, place_of, quantile, rare, steady
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding

__all__ = ["RULE"]

LATE, FEWEST, OF_A_STEP = 5.0, 40, 0.05


def judge(case: Case) -> Finding | None:
    """Add up the late batches."""
    loader = feeding(case)
    waits = steady(loader) if loader else []
    if loader is None or not loader.workers or len(waits) < FEWEST or not case.steps.wall:
        return None
    usual, late = max(statistics.median(waits), 1e-9), quantile(waits, 0.95)
    seconds = sum(w - usual for w in waits if w > LATE * usual) * rare(case, loader)
    if late <= LATE * usual or usual > OF_A_STEP * statistics.median(case.steps.wall):
        return None
    if case.part(seconds) < ABSTAIN:
        return None
    return costs(
        case,
        RULE.label,
        f"one batch in twenty is {late / usual:.0f} times later than the others, though the "
        "workers keep up",
        seconds,
        places=place_of(loader),
        evidence={"median wait": moment(usual), "95 of 100 within": moment(late)},
        remedies=[Remedy(text=f"prefetch_factor={2 * (loader.prefetch_factor or 2)}")],
    )


RULE = Rule(
    id="D19",
    name="jitter",
    title="Some batches come late, though most are ready",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=1,
    numerics="bitwise",
)
