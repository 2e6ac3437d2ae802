"""The worker processes are busy all the time and the loop still waits.

Looks at: how often the loop met an empty queue, how busy the workers are, and the free cores.
Says so when: rule D1 speaks, 20 % of the waits or more met an empty queue, the workers keep 80 %
    of a core each busy, and cores are free.
Stays silent when: no core is free (D7), or the workers wait themselves (D10).
Remedy: more workers.
Numbers: bitwise the same where reading draws no random numbers; else the random stream changes.
Seen: golden case only.
Source: gpuprof for the empty queue, hotloop for the thresholds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.core.finding import Remedy
from hotloop.judging.waiting import costs, feeding, place_of, waits_for_data
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding

__all__ = ["RULE"]

EMPTY, BUSY = 0.20, 0.80  # share of the waits; of a core per worker


def judge(case: Case) -> Finding | None:
    """Look for busy workers beside idle cores."""
    loader, cores = feeding(case), case.hardware.cores
    if loader is None or not loader.workers or cores is None or not waits_for_data(case):
        return None
    if loader.empty is None or loader.empty < EMPTY:
        return None
    if loader.worker_cpu is not None and loader.worker_cpu < BUSY * loader.workers:
        return None
    more = math.floor(cores - 1)
    if more <= loader.workers or (loader.worker_cpu or 0.0) >= 0.9 * cores:
        return None
    wait = case.row("data wait")
    return costs(
        case,
        RULE.label,
        f"{loader.workers} workers are too few: {loader.empty:.0%} of the batches were not ready, "
        f"and {more - loader.workers} more cores are there",
        wait * (1 - loader.workers / more),
        places=place_of(loader),
        evidence={"workers busy": f"{loader.worker_cpu:.1f} cores"} if loader.worker_cpu else {},
        remedies=[
            Remedy(
                text=f"num_workers={min(more, 2 * loader.workers)}, and measure it",
                technique="loader-workers",
            )
        ],
    )


RULE = Rule(
    id="D6",
    name="workers_few",
    title="Too few worker processes",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=1,
    numerics="training",
)
