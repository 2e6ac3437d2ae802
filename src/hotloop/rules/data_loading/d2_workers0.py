"""The loop's own process reads the data, and trains meanwhile nothing.

Looks at: a DataLoader's number of workers, the time to read one sample, the cores of the machine.
Says so when: rule D1 speaks, num_workers is 0, and reading samples takes 5 % of the wall time or
    more.
Stays silent when: samples are views of tensors that lie in memory, or no core is free.
Remedy: num_workers; the first guess hides the wait behind the rest of a step, then measure it.
Numbers: bitwise the same where reading draws no random numbers; else the random stream changes.
Seen: examples/slow/slow_getitem.
Source: hotloop. Handing a batch over costs time as well: of samples that are cut from memory 439k/s
    came without and 109k/s with 2 workers (RULES; 2 cores, torch 2.13). hotloop tune measures it.
"""

from hotloop.core.case.case import IN_STEP
from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support import data_wait

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Compute the share of the wall time in which the loop's own process reads samples."""
    loader = data_wait.feeding(case)
    if loader is None or loader.workers or not data_wait.waits_for_data(case):
        return None
    item, workers = data_wait.item_seconds(loader), data_wait.workers_for(case, loader)
    if item is None or loader.in_memory or not workers:
        return None
    if case.part(data_wait.reading_seconds(case, loader) or 0.0) < data_wait.MATTERS:
        return None
    wait = case.row("data wait")
    left = max(0.0, wait / workers - (sum(map(case.row, IN_STEP)) - wait))
    same = "no result changes" if loader.uses_random is False else "random streams change"
    return data_wait.costs(
        case,
        f"one process reads the data and trains: num_workers=0, {moment(item)} a sample",
        wait - left,
        places=data_wait.place_of(loader),
        evidence={
            "a batch": moment(item * (loader.batch_size or 1)),
            "cores": f"{case.hardware.cores or 1:g}",
        },
        remedies=[
            *data_wait.read_ahead(loader),
            Remedy(text=f"DataLoader(..., num_workers={workers}, persistent_workers=True); {same}"),
        ],
    )


RULE = Rule(
    title="The loop reads its data itself",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    numerics="training",
    experiment="ready samples",
    by_host=True,
)
