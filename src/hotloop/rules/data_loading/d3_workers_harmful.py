"""Worker processes take longer than the loop would need to read its batches itself.

Looks at: the wait for data, the number of workers, whether the data lie in memory, and the time in
    which the loop's process reads the same batches.
Says so when: there are workers, the loop waits 5 % or more for them, and the data lie in memory or
    steps were faster without workers.
Stays silent when: neither is so.
Remedy: num_workers=0 (hotloop run --with loader-workers:count=0 keeps the order and the random
    stream), and whole batches cut at once.
Numbers: bitwise the same where reading draws no random numbers.
Seen: examples/planted/loader_tiny_epochs.py.
Source: measured for RULES: 439k samples/s without, 109k with 2 workers, 860k with __getitems__ and
    1,228k by slicing (2 cores, torch 2.13); https://github.com/pytorch/pytorch/pull/181501.
"""

import statistics

from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import costs, feeding, place_of, waits_for_data, with_workers

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for workers that read data from memory."""
    loader = feeding(case)
    if loader is None or not loader.workers or loader.iterable or not waits_for_data(case):
        return None
    is_faster = any(one.name == "no workers" and one.outcome == "gain" for one in case.experiments)
    if not loader.in_memory and not is_faster:
        return None
    claim = f"{loader.workers} processes hand over samples that lie in memory already"
    if not loader.in_memory:
        claim = f"{loader.workers} worker processes take longer than the loop would to read a batch"
    return costs(
        case,
        claim,
        case.row("data wait"),
        places=place_of(loader),
        evidence={"a batch": moment(statistics.median(loader.waits))} if loader.waits else {},
        remedies=[
            with_workers(case, loader, "num_workers=0", count=0),
            code_edit("cut whole batches: __getitems__ in the data set"),
        ],
    )


RULE = Rule(
    title="Worker processes that cost more than they save",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    numerics="bitwise",
    by_host=True,
    experiment="no workers",
)
