"""The worker processes are busy all the time and the loop still waits.

Looks at: how often the loop met an empty queue, how busy the workers are, and the cores that this
    run leaves unused.
Says so when: rule D1 speaks, 20 % of the waits or more met an empty queue, the workers keep 80 %
    of a core each busy, and the run leaves half a core or more unused. Other processes that want
    it are rule H12's.
Stays silent when: no core is free (D7), or the workers wait themselves (D10).
Remedy: more workers.
Numbers: bitwise the same where reading draws no random numbers; else the random stream changes.
Seen: examples/planted/loader_one_worker.py.
Source: gpuprof for the empty queue, hotloop for the thresholds.
"""

import math

from hotloop.rules.base import Case, Finding, Needs, Rule
from hotloop.rules.support import data_wait

__all__ = ["RULE"]

EMPTY, BUSY, FREE = 0.20, 0.80, 0.5  # share of the waits; of a core per worker; cores


def judge(case: Case) -> Finding | None:
    """Look for busy workers while cores are idle."""
    loader = data_wait.feeding(case)
    if loader is None or not loader.workers or not data_wait.waits_for_data(case):
        return None
    if loader.empty is None or loader.empty < EMPTY:
        return None
    busy = loader.worker_cpu
    if busy is None or busy < BUSY * loader.workers:
        return None
    free = data_wait.unused_cores(case)
    if free is None or free < FREE:
        return None
    more = loader.workers + max(1, math.floor(free))
    count = min(more, 2 * loader.workers)
    return data_wait.costs(
        case,
        f"num_workers={loader.workers} is too few: {loader.empty:.0%} of the batches were not "
        f"ready, and {free:.1f} of {case.hardware.cores:g} cores are unused",
        case.row("data wait") * (1 - loader.workers / more),
        places=data_wait.place_of(loader),
        evidence={"workers busy": f"{busy:.1f} cores"},
        remedies=[
            data_wait.with_workers(
                case, loader, f"num_workers={count}, and measure it", count=count
            )
        ],
    )


RULE = Rule(
    title="Too few worker processes",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    numerics="training",
    by_host=True,
)
