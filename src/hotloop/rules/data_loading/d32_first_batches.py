"""Each pass over a loader is given up after its first batch.

Looks at: how often a loader was started, how many batches each pass gave, and whether samples had
    equal values when they were read again.
Says so when: a loader of several batches was started four times or more and gave one batch each
    time, as next(iter(loader)) does in a loop. Critical where the rows come in order and sampled
    rows were equal when they came again: then the training sees one batch and no other. Else a
    note: rows come by chance, some twice in an epoch and others never.
Stays silent when: a pass gave more batches, an epoch has one, or an evaluation reads one batch.
Remedy: `for batch in loader`; or keep one iterator, and make another when it raises StopIteration.
Numbers: training: the model sees other rows.
Seen: examples/planted/first_batch.py; benchmarks/field/truth/corr_cmnist.json.
Source: https://docs.pytorch.org/docs/stable/data.html: iter() of a DataLoader begins an epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import place_of, reads_the_same

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import Loader

__all__ = ["RULE"]

PASSES = 4  # a look at the first batch before the training is one
IN_ORDER = "SequentialSampler"


def judge(case: Case) -> Finding | None:
    """Look for a loader of which each pass gave one batch."""
    for loader in case.loaders:
        if not _is_given_up(loader):
            continue
        rows = f"{loader.batch_size or 1:,} of {loader.length or 0:,} rows"
        is_same = loader.sampler == IN_ORDER and reads_the_same(loader)
        if loader.role == "train":
            what = f"trains on the same {rows}" if is_same else "reads one batch of each pass"
        elif _is_repeated(case, loader):
            what = "evaluates first batches alone"
        else:
            continue
        return Finding(
            claim=f"each pass over the loader ends after its first batch: the script {what}",
            severity="critical" if is_same and loader.role == "train" else "note",
            places=place_of(loader),
            evidence={"passes": f"{loader.iterations:,}", "batches of one": f"{loader.batches:,}"},
            remedies=[code_edit("for batch in loader: in place of next(iter(loader))")],
        )
    return None


def _is_given_up(loader: Loader) -> bool:
    several = (loader.batches or 0) > 1 and loader.iterations >= PASSES and not loader.iterable
    return several and len(loader.waits) == len(loader.first_waits) >= PASSES


def _is_repeated(case: Case, loader: Loader) -> bool:
    """Whether one evaluation reads several batches, each of them the first."""
    return any(one.loader == loader.key and one.batches > 1 for one in case.evaluations)


RULE = Rule(
    title="Only the first batch of a loader is read",
    judge=judge,
    needs=(Needs.LOADER,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
