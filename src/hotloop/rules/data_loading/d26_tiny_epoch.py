"""Epochs are so short that starting each one takes a good part of the time.

Looks at: the time of an epoch's steps, what its first batch waits longer than another, and the
    wait at its end.
Says so when: of three epochs or more, starts and ends cost 5 % of the wall time or more.
Stays silent when: the loader is started once.
Remedy: one long epoch in place of many short ones.
Numbers: the order of the samples changes.
Seen: examples/planted/loader_tiny_epochs.py.
Source: the five projects (one started its workers for each epoch of 25 rows); thresholds ours.
"""

import statistics

from hotloop.core.case.case import IN_STEP
from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.data_wait import MATTERS, costs, feeding, place_of, steady

__all__ = ["RULE"]

FEWEST = 3  # epochs


def judge(case: Case) -> Finding | None:
    """Sum the start and end times of short epochs."""
    loader = feeding(case)
    if loader is None or loader.iterations < FEWEST or not loader.first_waits:
        return None
    epoch = sum(map(case.row, IN_STEP)) / loader.iterations
    usual = statistics.median(steady(loader) or [0.0])
    start = max(0.0, statistics.median(loader.first_waits) - usual)
    start += statistics.median(loader.last_waits or [0.0])
    seconds = start * loader.iterations
    if case.part(seconds) < MATTERS:
        return None
    return costs(
        case,
        f"an epoch takes {moment(epoch)}, and {moment(start)} of it to start and end",
        seconds,
        places=place_of(loader),
        evidence={
            "epochs": f"{loader.iterations}",
            "evaluations": f"{len(case.evaluations)}",
            "saves": f"{len(case.saves)}",
        },
        remedies=[
            Remedy(
                text="RandomSampler(data, num_samples=10 * len(data)) makes one epoch of ten; "
                "count epochs by samples"
            )
        ],
    )


RULE = Rule(
    title="Epochs so short that starting them counts",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    numerics="training",
)
