"""Each worker goes through the whole iterable data set, so each sample comes several times.

Looks at: loaders of an iterable data set with workers, and whether it asks for its worker's number.
Says so when: it has two workers or more and neither it nor a stream that it reads asks.
    A note where no row was seen twice in an epoch.
Stays silent when: one does, that is unknown, there is a worker_init_fn, or __iter__ draws its
    samples at random: each worker draws others.
Remedy: let each worker read its part.
Numbers: training: the model sees other data, and an epoch is as long as its author believes.
Seen: examples/planted/loader_whole_stream.py.
Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset (2026-11).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support.data_wait import place_of
from hotloop.rules.support.dataset_code import method

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import Loader

__all__ = ["RULE"]

AGAIN = 0.05  # of the sampled rows
# Drawing at random; shuffling does not count, as each worker still reads the whole stream.
_DRAWS = re.compile(r"rand(?!perm|om\.shuffle|om\.permutation)|choice|sample\(")


def judge(case: Case) -> Finding | None:
    """Look for a stream that is not divided among the workers."""
    for loader in case.loaders:
        if not loader.iterable or loader.workers < 2 or loader.worker_info is not False:
            continue
        definition = method(case, loader.dataset, "__iter__")
        if definition and _DRAWS.search(ast.unparse(definition[1])):
            continue
        reading = [definition[0].place(definition[1])] if definition else []
        return Finding(
            claim=f"each of {loader.workers} workers reads all of {loader.dataset or 'the stream'}:"
            f" every sample comes {loader.workers} times an epoch",
            severity="critical",
            known="proved" if _came_again(case, loader) else "read",
            places=[*reading, *place_of(loader)],
            remedies=[
                Remedy(text="num_workers=1"),
                code_edit(
                    "in __iter__: info = torch.utils.data.get_worker_info(); read only "
                    "itertools.islice(samples, info.id, None, info.num_workers)"
                ),
            ],
        )
    return None


def _came_again(case: Case, loader: Loader) -> bool:
    """Whether rows of the loader were seen twice in one epoch."""
    return any(
        batches.loader == loader.key and (batches.duplicated or 0.0) >= AGAIN
        for batches in case.batches
    )


RULE = Rule(
    title="Each worker reads the whole stream",
    judge=judge,
    needs=(Needs.LOADER,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
