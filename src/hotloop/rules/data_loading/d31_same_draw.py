"""Each epoch draws the same part of the training rows, or reads them in the same order.

Looks at: the indices that the sampler of a training loader gives in its first two or three whole
    epochs; the sampler of a loader that was read in two epochs or more.
Says so when: these epochs have the same batches in the same order, which is not that of the data
    set, and 5 % of the rows or more are in none of them. A note where all rows are drawn. Or rows
    are read one after another, because the line that builds the loader leaves DataLoader's default,
    and no code of the project shuffles anything; a note where shuffle=False is written or something
    is shuffled, which may be these rows, or where no sampled row was equal in two epochs, as the
    data set may draw them.
Stays silent when: an epoch draws other rows or another order, an epoch has less than 6 batches, or
    rows are windows of a series.
Remedy: shuffle=True; draw from a generator that goes on from epoch to epoch, or seed it with the
    epoch's number.
Numbers: training: the model sees other rows, in another order.
Seen: examples/planted/same_draw.py; the batch sampler of a public project on spoken words
    (benchmarks/field, speech_lightning): 100 distinct batches in 5 epochs of 100, 161 of 859 files
    never read.
Source: hotloop; set_epoch of
    https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    exists for this reason.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import place_of, reads_the_same
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import Loader

__all__ = ["RULE"]

LEFT_OUT = 0.05  # share of the rows
EPOCHS, FEWEST = 2, 6  # of a loader that is read in order; its batches
CHOICES = ("shuffle", "sampler", "batch_sampler")  # arguments that say how rows are drawn
POSITIONAL = 2  # arguments of DataLoader before shuffle
SHUFFLES = re.compile(r"shuffle|permut|randperm|random_split|\bsample\(|train_test_split")


def judge(case: Case) -> Finding | None:
    """Look for a loader whose epochs are equal."""
    for loader in case.training_loaders:
        if not loader.draws_again or loader.drawn is None or not loader.length:
            continue
        left = 1 - loader.drawn / loader.length
        part = f"the same {loader.drawn:,} of {loader.length:,} rows"
        what = part if left >= LEFT_OUT else "all rows in the same order"
        place = [loader.sampler_place] if loader.sampler_place else place_of(loader)
        return Finding(
            claim=f"each epoch draws {what}: {loader.sampler} begins anew",
            severity="warn" if left >= LEFT_OUT else "note",
            places=place,
            evidence={"epochs compared": f"{loader.epochs_drawn}"},
            remedies=[
                code_edit(
                    "seed the sampler's generator with the epoch, or keep it from epoch to epoch"
                )
            ],
        )
    return next(filter(None, (_in_order(case, loader) for loader in case.training_loaders)), None)


def _in_order(case: Case, loader: Loader) -> Finding | None:
    """Say that a loader reads its rows one after another in each epoch."""
    is_read_again = loader.iterations >= EPOCHS and (loader.batches or 0) >= FEWEST
    if loader.sampler != "SequentialSampler" or loader.iterable or not is_read_again:
        return None
    if any(batch.loader == loader.key and batch.shifted for batch in case.batches):
        return None
    project = parse(case.sources)
    calls = [
        call
        for module, call in project.calls("DataLoader")
        if loader.place in [module.place(node) for node in ast.walk(call)]
    ]
    is_default = bool(calls) and not any(
        keyword.arg in (None, *CHOICES) for call in calls for keyword in call.keywords
    )
    is_default = is_default and all(len(call.args) <= POSITIONAL for call in calls)
    shuffles = any(SHUFFLES.search(text) for text in case.sources.values())
    return Finding(
        claim="the training rows come in the same order in each epoch: the loader does not shuffle",
        severity="warn" if is_default and not shuffles else "note",
        known="proved" if reads_the_same(loader) else "read",
        places=place_of(loader),
        evidence={"epochs": f"{loader.iterations}", "rows": f"{loader.length:,}"}
        if loader.length
        else {},
        remedies=[code_edit("DataLoader(..., shuffle=True): another order in each epoch")],
    )


RULE = Rule(
    title="Each epoch draws the same rows",
    judge=judge,
    needs=(Needs.LOADER,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
