"""Most batches are ready in time, some come so late that the loop waits.

Looks at: the waits of loaders with workers, the first of each epoch left out.
Says so when: of 40 waits or more, one in twenty is half a step or more, the median is below a tenth
    of a step, and the late ones cost 2 % of the wall time.
Stays silent when: the workers are too slow altogether (D6, D7).
Remedy: a longer queue: prefetch_factor.
Numbers: bitwise the same.
Seen: examples/planted/loader_late_reads.py.
Source: gpuprof (p95 over five times the median); the shares of a step are ours: a batch that stands
    ready takes 2 ms of a step of 38 ms to be handed over (n 250, 2 cores that others used too).
    prefetch_factor measured bitwise for RULES (torch 2.13).
"""

import statistics

from hotloop.core.units import moment
from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.data_wait import costs, feeding, place_of, quantile, rare, steady

__all__ = ["RULE"]

LATE, IN_TIME, FEWEST = 0.5, 0.1, 40  # of a step; waits


def judge(case: Case) -> Finding | None:
    """Add up the late batches."""
    loader = feeding(case)
    waits = steady(loader) if loader else []
    if loader is None or not loader.workers or len(waits) < FEWEST or not case.steps.wall:
        return None
    step, usual = statistics.median(case.steps.wall), statistics.median(waits)
    late = quantile(waits, 0.95)
    seconds = sum(w - usual for w in waits if w > LATE * step) * rare(case, loader)
    if late <= LATE * step or usual > IN_TIME * step or case.part(seconds) < ABSTAIN:
        return None
    return costs(
        case,
        f"one batch in twenty comes {moment(late)} late or more, though the workers keep up",
        seconds,
        places=place_of(loader),
        evidence={"median wait": moment(usual)},
        remedies=[Remedy(text=f"prefetch_factor={2 * (loader.prefetch_factor or 2)}")],
    )


RULE = Rule(
    title="Some batches come late, though most are ready",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    numerics="bitwise",
    by_host=True,
)
