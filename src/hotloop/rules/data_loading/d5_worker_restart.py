"""Worker processes are ended and started again at every epoch.

Looks at: the first wait of each epoch against the others, of loaders with workers, and the wait at
    its end, where the workers are ended.
Says so when: both cost 5 % of the wall time or more, the very first one left out.
Stays silent when: persistent_workers is True, or there was one epoch.
Remedy: persistent_workers=True, with one draw from the global generator at each epoch's start;
    hotloop run --with loader-workers does both.
Numbers: bitwise the same with that draw (measured over 4 epochs); without it the shuffling changes,
    because a fresh iterator draws its base_seed and a persistent one does not.
Seen: examples/planted/loader_tiny_epochs.py.
Source: measured for RULES: an epoch of 25 samples takes 129 ms without workers, 139-168 ms with 4,
    54 ms with 4 persistent ones (2 cores, torch 2.13).
"""

import statistics

from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Rule
from hotloop.rules.support.data_wait import MATTERS, costs, place_of, steady, with_workers

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Sum the extra wait for the first batch of each epoch and the time to end an epoch."""
    for loader in case.training_loaders:
        if not loader.workers or loader.persistent or len(loader.first_waits) < 2:
            continue
        usual = statistics.median(steady(loader) or [0.0])
        starts = [max(0.0, wait - usual) for wait in loader.first_waits[1:]]
        ends = statistics.median(loader.last_waits or [0.0])
        seconds = (statistics.fmean(starts) + ends) * max(len(starts), loader.iterations - 1)
        if case.part(seconds) < MATTERS:
            continue
        return costs(
            case,
            f"{loader.workers} worker processes start anew each epoch: "
            f"{moment(statistics.median(starts))} before its first batch, {moment(ends)} to end it",
            seconds,
            places=place_of(loader),
            evidence={"another batch": moment(usual), "epochs": f"{loader.iterations}"},
            remedies=[
                with_workers(
                    case,
                    loader,
                    "persistent_workers=True, and torch.empty((), dtype=torch.int64).random_()"
                    " at the start of each further epoch keeps the order as it was",
                ),
            ],
        )
    return None


RULE = Rule(
    title="Worker processes start anew each epoch",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    numerics="training",
    by_host=True,
)
