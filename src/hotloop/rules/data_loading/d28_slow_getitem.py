"""The project's own code that reads a sample, or makes a batch by hand, is what the loop waits for.

Looks at: the call stacks while the loop waited for data, and the project's lines in them.
Says so when: rule D1 speaks and half of the wait or more is in the project's __getitem__,
    __getitems__ or __iter__, or in its function that makes batches.
Stays silent when: the reading is a library's, or worker processes hide it.
Remedy: the same result once instead of at each read; then worker processes.
Numbers: bitwise the same, as long as what is moved draws no random numbers.
Seen: examples/slow/slow_getitem.
Source: hotloop.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support import data_wait

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import Loader, Stack

__all__ = ["RULE"]

OF_THE_WAIT = 0.50


def judge(case: Case) -> Finding | None:
    """Sum the stacks that pass through the project's reading functions."""
    loader, waiting = data_wait.feeding(case), data_wait.stacks_of(case)
    hot = [stack for stack in waiting if data_wait.reader(stack)]
    seconds, wait = sum(stack.seconds for stack in hot), case.row("data wait")
    if not hot or seconds < OF_THE_WAIT * wait or not data_wait.waits_for_data(case):
        return None
    item = data_wait.item_seconds(loader) if loader else None
    return data_wait.costs(
        case,
        f"{_name(hot)} takes {seconds / wait:.0%} of the wait for data"
        + (f", {moment(item)} a sample" if item else ""),
        seconds,
        places=data_wait.lines(hot),
        evidence={"in it": f"{seconds:.1f} s of {wait:.1f} s"},
        remedies=_remedies(case, loader),
    )


def _name(hot: list[Stack]) -> str:
    """Return the function that reads, else the innermost function of the project."""
    samples: Counter[str] = Counter()
    for stack in hot:
        frame = data_wait.reader(stack) or next(frame for frame in stack.frames if frame.own)
        samples[frame.function] += stack.samples
    return samples.most_common(1)[0][0]


def _remedies(case: Case, loader: Loader | None) -> list[Remedy]:
    remedies = data_wait.keep_samples(loader)
    if loader is None:
        return [
            *remedies,
            code_edit("do what is the same for each batch once, before the loop"),
        ]
    if not loader.workers and data_wait.workers_for(case, loader):
        remedies += data_wait.read_ahead(loader)
    once = "do it once in __init__, so that __getitem__ only indexes"
    return [*remedies, code_edit(once)]


RULE = Rule(
    title="The project's own reading of a sample is slow",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    under="D1",
    weight=2,
    numerics="bitwise",
    experiment="ready samples",
    by_host=True,
)
