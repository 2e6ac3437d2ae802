"""Worker processes take longer than the loop would need to read its batches itself.

Looks at: the wait for data, the number of workers, whether the data lie in memory, and steps whose
    batches the loop's process reads itself.
Says so when: steps were faster without the workers: they share the loop's cores, or hand over more
    slowly than the loop reads. Or there are workers, the loop waits 5 % or more for them, and the
    data lie in memory.
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
from hotloop.rules.support.costs import in_steps
from hotloop.rules.support.data_wait import costs, feeding, place_of, waits_for_data, with_workers

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for workers that read data from memory."""
    loader = feeding(case)
    if loader is None or not loader.workers or loader.iterable:
        return None
    without = [one for one in case.experiments if one.name == "no workers"]
    gained = max((one.share or 0.0 for one in without if one.outcome == "gain"), default=0.0)
    if not gained and not (loader.in_memory and waits_for_data(case)):
        return None
    claim = f"{loader.workers} processes hand over samples that lie in memory already"
    if not loader.in_memory:
        claim = f"{loader.workers} worker processes cost more than they save"
    return costs(
        case,
        claim,
        max(case.row("data wait"), in_steps(case, gained)),
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
