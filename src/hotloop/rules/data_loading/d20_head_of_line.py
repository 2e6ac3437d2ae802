"""Few batches take very long, and the batches behind them, which are ready, wait with the loop.

Looks at: the waits of loaders with two workers or more that deliver in order.
Says so when: of 100 waits or more, one in a hundred is 10 times the median and as long as a step,
    batches stand ready behind four of five such ones, and they cost 2 % of the wall time.
Stays silent when: late batches are common (D19), or in_order=False.
Remedy: in_order=False takes the batch that is ready.
Numbers: the order of the batches changes.
Seen: examples/planted/loader_held_up.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/data.html (in_order).
"""

import statistics
from itertools import pairwise

from hotloop.core.units import moment
from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.data_wait import costs, feeding, place_of, quantile, rare, steady

__all__ = ["RULE"]

LATE, COMMON, FEWEST = 10.0, 5.0, 100
OF_A_STEP = 0.10  # shorter waits are those of the transfer between processes (rule D19)
BEHIND, READY = 0.8, 0.1  # share of the late batches; share of a late batch's wait


def judge(case: Case) -> Finding | None:
    """Look for rare long waits that are followed by ready batches."""
    loader = feeding(case)
    waits = steady(loader) if loader else []
    if loader is None or loader.workers < 2 or not loader.in_order or len(waits) < FEWEST:
        return None
    usual = max(statistics.median(waits), OF_A_STEP * statistics.median(case.steps.wall or [0.0]))
    if quantile(waits, 0.95) > COMMON * usual or quantile(waits, 0.99) < LATE * usual:
        return None
    late = [(wait, then) for wait, then in pairwise(waits) if wait >= LATE * usual]
    ready = sum(then < READY * wait for wait, then in late)
    seconds = sum(wait for wait, _ in late) * rare(case, loader)
    if ready < BEHIND * len(late) or case.part(seconds) < ABSTAIN:
        return None
    return costs(
        case,
        f"{len(late)} of {len(waits)} batches take {LATE:.0f} times as long as the others and hold "
        "up batches that are ready",
        seconds,
        places=place_of(loader),
        evidence={"median wait": moment(statistics.median(waits)), "longest": moment(max(waits))},
        remedies=[Remedy(text="DataLoader(..., in_order=False)")],
    )


RULE = Rule(
    title="One slow sample holds up the batches behind it",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    numerics="training",
    by_host=True,
)
