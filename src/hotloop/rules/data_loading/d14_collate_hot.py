"""The time goes into putting the samples of a batch together, not into reading them.

Looks at: the call stacks while the loop waited for data that pass a collate function.
Says so when: they are 20 % of the wait or more, more than reading takes, and 2 % of the wall time.
Stays silent when: the data lie in memory and are cut one by one (D4).
Remedy: one allocation and one copy per sample, or a worker process that collates.
Numbers: bitwise the same.
Seen: examples/planted/loader_python_collate.py.
Source: hotloop.
"""

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support import data_wait
from hotloop.rules.support.costs import hottest

__all__ = ["RULE"]

OF_THE_WAIT = 0.20


def judge(case: Case) -> Finding | None:
    """Add up the stacks that pass through collating."""
    loader, waiting = data_wait.feeding(case), data_wait.stacks_of(case)
    own = loader.collate if loader else "default_collate"
    if loader and loader.in_memory and own == "default_collate":
        return None
    hot = [stack for stack in waiting if stack.passes("collate", "pad_sequence", own)]
    seconds, wait = sum(stack.seconds for stack in hot), case.row("data wait")
    read = sum(stack.seconds for stack in waiting if stack.passes("__getitem"))
    if not hot or seconds < OF_THE_WAIT * wait or seconds < read or case.part(seconds) < ABSTAIN:
        return None
    workers = data_wait.workers_for(case, loader) if loader else 0
    return data_wait.costs(
        case,
        f"{own} takes {seconds / wait:.0%} of the wait for data",
        seconds,
        places=hottest(hot)[:1] or data_wait.place_of(loader),
        evidence={"collating": f"{seconds:.1f} s of {wait:.1f} s"},
        remedies=[
            *([Remedy(text=f"num_workers={workers} collates in another process")] * bool(workers)),
            code_edit(
                "allocate the batch once with torch.full(...) and copy each sample into it; "
                "no Python loop over its elements"
            ),
        ],
    )


RULE = Rule(
    title="Putting samples into a batch is slow",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    under="D1",
    weight=2,
    numerics="bitwise",
    by_host=True,
)
