"""One epoch reads the same data many times, or training data are in the evaluation.

Looks at: sampled rows of the batches: windows that overlap, rows twice in an epoch, and evaluation
    rows that are training rows.
Says so when: each position is read twice an epoch or more (critical from four times on), 5 % of the
    rows are twice in an epoch, or 5 % of the evaluation rows are training rows (critical at 20 %).
    Before a run: it reads the data more than 4 times (a warning from 40 times on), or rows stand
    twice in the training data, or in the validation data as well.
Stays silent when: the sampler draws with weights, or workers repeat a stream (D25).
Remedy: windows side by side; rows once; a split before windows are cut.
Numbers: training: an epoch is another thing.
Seen: examples/slow/accelerate/pad_to_max.py, examples/slow/stride1_windows.
Source: three of the five projects (stride-1 windows, a text twice in a row, rows in both parts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Place, Remedy
from hotloop.judging.datasets import returned, windows
from hotloop.judging.waiting import place_of
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.observed import Batches, Loader

__all__ = ["RULE"]

TIMES, MANY, ROWS, LEAK = 2.0, 4.0, 0.05, 0.20


def judge(case: Case) -> Finding | None:
    """Judge windows first, then the split, then rows."""
    loaders = {loader.key: loader for loader in case.loaders}
    for seen in (_overlap, _leak, _twice):
        for batch in case.batches:
            loader = loaders.get(batch.loader) if batch.loader is not None else None
            finding = seen(case, batch, loader)
            if finding is not None:
                return finding
    return None


def _overlap(case: Case, batch: Batches, loader: Loader | None) -> Finding | None:
    times = batch.overlap
    if batch.role != "train" or times is None or times < TIMES:
        return None
    apart = f": windows are {batch.shifted} apart" if batch.shifted else ""
    return Finding(
        rule=RULE.label,
        claim=f"one epoch reads each position {times:.0f} times{apart}",
        severity="critical" if times >= MANY else "warn",
        places=_places(case, batch, loader, "__len__"),
        evidence={"rows of an epoch": f"{loader.length}"} if loader and loader.length else {},
        remedies=[
            Remedy(
                text="windows side by side: len(data) // block_size of them in __len__, starting at"
                " i * block_size in __getitem__; overlap on purpose needs fewer epochs",
                effort="code edit",
            )
        ],
    )


def _leak(case: Case, batch: Batches, loader: Loader | None) -> Finding | None:
    share = batch.in_evaluation
    if share is None or share < ROWS:
        return None
    return Finding(
        rule=RULE.label,
        claim=f"{share:.0%} of the evaluation rows are training rows too",
        severity="critical" if share >= LEAK else "warn",
        places=_places(case, batch, loader, "__init__"),
        remedies=[
            Remedy(
                text="drop equal rows, then split, before windows are cut or rows are augmented",
                effort="code edit",
            )
        ],
    )


def _twice(case: Case, batch: Batches, loader: Loader | None) -> Finding | None:
    share = batch.duplicated
    if batch.role != "train" or share is None or share < ROWS:
        return None
    if loader and ("Weighted" in loader.sampler or (loader.iterable and loader.workers > 1)):
        return None
    return Finding(
        rule=RULE.label,
        claim=f"{share:.0%} of the rows came before in the same epoch",
        severity="critical" if share >= 0.5 else "warn" if share >= 0.25 else "note",
        places=_places(case, batch, loader, "__getitem__"),
        remedies=[
            Remedy(text="drop equal rows when the data are read, or say that they are weights")
        ],
    )


def _places(case: Case, batch: Batches, loader: Loader | None, method: str) -> list[Place]:
    """Return the data set's own lines, the line that cuts windows, and the loader's."""
    own = returned(case, loader.dataset, method) if loader else None
    found = [own, loader.getitem if loader else None, *windows(case)[:1], batch.place]
    return list(dict.fromkeys([place for place in found if place] + place_of(loader)))


RULE = Rule(
    id="X1",
    name="repeated_data",
    title="The same data come many times",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.BATCHES,),
    kind="correctness",
)
