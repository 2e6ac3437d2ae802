"""More worker processes than cores fight for them.

Looks at: num_workers of the training loaders against affinity and cgroup quota.
Says so when: there are more workers than cores. A note where the loop does not wait for data.
Stays silent when: the quota is unknown.
Remedy: num_workers below the number of cores; one core is the loop's own.
Numbers: bitwise the same where reading draws no random numbers; else the random stream changes.
Seen: examples/planted/loader_tiny_epochs.py.
Source: torch's own warning reads sched_getaffinity and not cpu.max, so it is silent in containers
    (torch/utils/data/dataloader.py, 2.13).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN, Finding, by_share
from hotloop.core.units import many
from hotloop.judging.waiting import place_of, with_workers
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Compare workers with cores."""
    cores = case.hardware.cores
    loader = max(case.training_loaders, key=lambda found: found.workers, default=None)
    if loader is None or cores is None or loader.workers <= cores:
        return None
    wait = case.share("data wait")
    few = max(1, math.floor(cores) - 1)
    return Finding(
        rule=RULE.label,
        claim=f"num_workers={loader.workers} on {many(cores, 'core')}: more processes than can run",
        severity=by_share(wait) if wait >= ABSTAIN else "note",
        share=wait,
        places=place_of(loader),
        remedies=[with_workers(case, loader, f"num_workers={few}", count=few)],
    )


RULE = Rule(
    id="D8",
    name="workers_too_many",
    title="More worker processes than cores",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.LOADER,),
    under="D1",
    weight=1,
    numerics="training",
)
