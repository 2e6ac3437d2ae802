"""A batch of data that lie in memory is cut one sample at a time and stacked again.

Looks at: the kind of data set, its collate function and the wait for data.
Says so when: the data lie in memory, torch's default collate stacks the samples, and the loop waits
    10 % of the time or more.
Stays silent when: the data set has __getitems__, or the loader a collate function of its own.
Remedy: index with the whole batch's indices; the order and the samples stay.
Numbers: bitwise the same.
Seen: examples/planted/stacked_rows.py.
Source: measured for RULES: 439k samples/s one by one, 1,228k by slicing (2 cores, torch 2.13).
"""

from hotloop.core.units import count
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit, option
from hotloop.rules.support.data_wait import costs, feeding, item_seconds, place_of

__all__ = ["RULE"]

SPEAKS = 0.10  # share of the wall time


def judge(case: Case) -> Finding | None:
    """Look for a loader that stacks samples that were contiguous in memory."""
    loader, wait = feeding(case), case.row("data wait")
    if loader is None or case.part(wait) < SPEAKS:
        return None
    item = item_seconds(loader)
    if not loader.in_memory or loader.vectorised or loader.workers or loader.iterable:
        return None
    if loader.collate != "default_collate":
        return None
    return costs(
        case,
        f"{loader.dataset or 'the data set'} lies in memory and is read one sample at a time",
        wait,
        places=[*place_of(loader), *([loader.getitem] if loader.getitem else [])],
        evidence={"samples": f"{count(1 / item)}/s"} if item else {},
        remedies=[
            option("cut each batch from its tensors at once", technique="vectorised-reads"),
            Remedy(
                text="DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), "
                f"{loader.batch_size or 32}, {loader.drop_last})) cuts a batch at once"
            ),
            code_edit(
                f"for rows in torch.randperm(len(data)).split({loader.batch_size or 32}): index "
                "the tensors with these rows, without a DataLoader"
            ),
            code_edit(
                "give the data set __getitems__(self, indices) that cuts all of them, and "
                "DataLoader(..., collate_fn=lambda batch: batch)"
            ),
        ],
    )


RULE = Rule(
    title="A tensor is cut sample by sample",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    numerics="bitwise",
    only_measured=True,
    by_host=True,
)
