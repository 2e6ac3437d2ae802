"""Reading ahead in worker processes is not worth it here.

Looks at: the wait for data of a loader without workers.
Says so when: it is 2 to 5 % of the wall time: no number of workers can save more.
Stays silent when: it is more (D2 to D7), or too little to think of workers at all.
Remedy: leave num_workers=0.
Numbers: nothing.
Seen: examples/blind/sensor_autoencoder.
Source: the loop's own wall time; 5 % is the gate of rule D1.
"""

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.data_wait import MATTERS, feeding, place_of

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Report what is left to save."""
    loader, wait = feeding(case), case.share("data wait")
    if loader is None or loader.workers:
        return None
    if not ABSTAIN <= wait < MATTERS:
        return None
    factor = case.ceiling_without(case.row("data wait")) or 1.0
    return Finding(
        claim=f"loader processes would not help: without any wait for data it is {factor:.2f}x",
        severity="note",
        share=wait,
        ceiling=factor,
        places=place_of(loader),
        remedies=[Remedy(text="leave num_workers=0", technique="loader-workers")],
    )


RULE = Rule(
    title="Worker processes would not pay",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    kind="not worth it",
    by_host=True,
)
