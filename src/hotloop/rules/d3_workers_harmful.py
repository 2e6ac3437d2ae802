"""Worker processes cost more than they save, or would.

Looks at: the wait for data, the number of workers, and whether the data lie in memory.
Says so when: workers hand over samples that lie in memory and the loop waits 5 % or more for them.
    A note, when nobody reads ahead and the wait is 2 to 5 %: workers are not worth it.
Stays silent when: a sample costs 20 us or more to read, or the wait is below 2 %.
Remedy: num_workers=0, and whole batches cut at once.
Numbers: bitwise the same where reading draws no random numbers.
Seen: golden case only.
Source: measured for RULES: 439k samples/s without, 109k with 2 workers, 860k with __getitems__ and
    1,228k by slicing (2 cores, torch 2.13); https://github.com/pytorch/pytorch/pull/181501.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN, Finding, Remedy
from hotloop.core.waiting import MATTERS, costs, feeding, item_seconds, place_of
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.observed import Loader

__all__ = ["RULE"]

CHEAP = 20e-6  # seconds per sample


def judge(case: Case) -> Finding | None:
    """Tell workers that read memory from workers that would save next to nothing."""
    loader, wait = feeding(case), case.share("data wait")
    if loader is None or loader.kind != "DataLoader" or loader.iterable:
        return None
    if not loader.workers:
        return _not_worth_it(case, loader) if ABSTAIN <= wait < MATTERS else None
    item = item_seconds(loader)
    if wait < MATTERS or not loader.in_memory or (item is not None and item >= CHEAP):
        return None
    return costs(
        case,
        RULE.label,
        f"{loader.workers} processes hand over samples that lie in memory already",
        case.row("data wait"),
        places=place_of(loader),
        evidence={"a batch": f"{statistics.median(loader.waits) * 1e3:.2f} ms"}
        if loader.waits
        else {},
        remedies=[
            Remedy(text="num_workers=0"),
            Remedy(text="cut whole batches: __getitems__ in the data set", effort="code edit"),
        ],
    )


def _not_worth_it(case: Case, loader: Loader) -> Finding:
    factor = case.ceiling_without(case.row("data wait")) or 1.0
    return Finding(
        rule=RULE.label,
        claim=f"loader processes would not help: without any wait for data it is {factor:.2f}x",
        severity="note",
        share=case.share("data wait"),
        ceiling=factor,
        places=place_of(loader),
        remedies=[Remedy(text="leave num_workers=0")],
    )


RULE = Rule(
    id="D3",
    name="workers_harmful",
    title="Worker processes that do not help",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    numerics="bitwise",
)
