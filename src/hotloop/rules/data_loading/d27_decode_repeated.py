"""Reading a sample gives the same result each epoch, and is done again each epoch.

Looks at: samples that were read again in a later epoch, and the wait for data.
Says so when: rule D1 speaks, 90 % of them were equal to the first reading, and reading them again
    takes 5 % of the wall time or more.
Stays silent when: reading draws random numbers, the samples are views of tensors that lie in
    memory, or there was one epoch.
Remedy: keep the samples: in memory, or in a file that is mapped.
Numbers: bitwise the same.
Seen: examples/slow/accelerate/slow_getitem.py, examples/slow/hf/slow_getitem.py.
Source: the five projects (one parsed and tokenised its rows in each of 3 epochs); 90 % is ours.
"""

from hotloop.core.units import bytes_, moment
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support import data_wait

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for samples that are computed again with an equal result."""
    loader = data_wait.feeding(case)
    if loader is None or loader.iterations < 2 or not data_wait.waits_for_data(case):
        return None
    item = data_wait.item_seconds(loader)
    if not data_wait.reads_the_same(loader) or loader.uses_random or loader.in_memory:
        return None
    again = 1 - 1 / loader.iterations  # of all readings
    reading = data_wait.reading_seconds(case, loader)
    if reading is not None and case.part(reading * again) < data_wait.MATTERS:
        return None
    size = (loader.batch_bytes or 0) * (loader.batches or 0)
    return data_wait.costs(
        case,
        f"reading gives the same samples in each of {loader.iterations} epochs"
        + (f", {moment(item)} a sample" if item else ""),
        case.row("data wait") * again,  # an upper bound: other causes of the wait are included
        places=[*([loader.getitem] if loader.getitem else []), *data_wait.place_of(loader)],
        evidence={"all samples": bytes_(size)} if size else {},
        remedies=[
            *data_wait.keep_samples(loader),
            code_edit("read once, np.save the result and open it with np.load(mmap_mode='r')"),
        ],
    )


RULE = Rule(
    title="The same samples are made again each epoch",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    numerics="bitwise",
    experiment="ready samples",
    by_host=True,
)
