"""More worker processes than cores fight for them.

Looks at: num_workers of the training loaders against affinity and cgroup quota.
Says so when: there are more workers than cores. A note: nothing tells how much of the wait for data
    fewer workers would save.
Stays silent when: the quota is unknown.
Remedy: num_workers below the number of cores; one core is the loop's own.
Numbers: bitwise the same where reading draws no random numbers; else the random stream changes.
Seen: examples/planted/loader_tiny_epochs.py.
Source: torch's own warning reads sched_getaffinity and not cpu.max, so it is silent in containers
    (torch/utils/data/dataloader.py, 2.13).
"""

import math

from hotloop.core.units import many
from hotloop.rules.base import Case, Finding, Needs, Rule
from hotloop.rules.support.data_wait import place_of, with_workers

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Compare workers with cores."""
    cores = case.hardware.cores
    loader = max(case.training_loaders, key=lambda candidate: candidate.workers, default=None)
    if loader is None or cores is None or loader.workers <= cores:
        return None
    few = max(1, math.floor(cores) - 1)
    return Finding(
        claim=f"num_workers={loader.workers} on {many(cores, 'core')}: more processes than can run",
        severity="note",
        places=place_of(loader),
        evidence={
            "wait for data": f"{case.share('data wait'):.0%} of the time, whatever the cause"
        },
        remedies=[with_workers(case, loader, f"measure num_workers={few}", count=few)],
    )


RULE = Rule(
    title="More worker processes than cores",
    judge=judge,
    needs=(Needs.LOADER,),
    under="D1",
    numerics="training",
    known="read",
    by_host=True,
)
