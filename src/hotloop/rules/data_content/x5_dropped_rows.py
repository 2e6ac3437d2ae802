"""Rows are left out of the evaluation, or more of the training rows than a remainder.

Looks at: drop_last, the number of rows and the batch size of each loader.
Says so when: an evaluation drops its last batch (a note below 10 % of the rows), or a training
    epoch leaves out 10 % of its rows or all of them. Before a run: drop_last leaves out 5 % of it,
    a limit that nobody typed cuts the text, or the steps end before all of it was read.
Stays silent when: the rows fill their batches.
Remedy: drop_last=False; a smaller batch.
Numbers: training for the training; the metric for the evaluation.
Seen: examples/planted/made_up.py.
Source: two of the five projects; 10 % is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule
from hotloop.rules.support.data_wait import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.planned_run import PlannedData, RunSettings, TextFacts

__all__ = ["RULE"]

MANY = 0.10  # of the rows
DROPPED_NOTE, DROPPED_WARN = 0.05, 0.20  # of an epoch of a planned run


def judge(case: Case) -> Finding | None:
    """Count the rows that do not fill a batch."""
    for loader in case.loaders:
        if not loader.drop_last or not loader.length or not loader.batch_size or loader.iterable:
            continue
        dropped = loader.length % loader.batch_size
        share, training = dropped / loader.length, loader.role == "train"
        if not dropped or loader.role == "unused" or (training and share < MANY):
            continue
        subject = "each training epoch" if training else "the evaluation"
        return Finding(
            claim=f"{subject} leaves out {dropped} of {loader.length} rows (drop_last)",
            severity="critical" if share == 1 else "warn" if share >= MANY else "note",
            places=place_of(loader),
            remedies=[
                Remedy(text="drop_last=False"),
                *([Remedy(text=f"batch_size={max(1, loader.batch_size // 2)}")] * training),
            ],
        )
    return None


def _before_run(case: Case, planned: PlannedRun) -> Iterator[Finding]:
    run, data = planned.settings, planned.data
    if run is None or data is None:
        return
    if run.epochs < 1:
        yield _unread(run, data)
    left_out = data.samples - data.per_epoch
    share = left_out / data.samples
    if share >= DROPPED_NOTE:
        yield Finding(
            claim=f"data.drop_last leaves {left_out:,} of {data.samples:,} {data.unit} "
            f"({share:.0%}) out of each epoch",
            severity="warn" if share >= DROPPED_WARN else "note",
            remedies=[Remedy(text="data.drop_last=false makes a smaller last step of them")],
        )
    if data.text is not None:
        yield from _limited(data.text)


def _unread(run: RunSettings, data: PlannedData) -> Finding:
    return Finding(
        claim=f"{run.steps:,} steps read {run.epochs:.1%} of the training {data.noun}; all of it "
        f"once takes {run.steps_per_epoch:,} steps",
        severity="note",
        remedies=[Remedy(text="training.epochs=1 training.max_steps=null reads all of it once")],
    )


def _limited(text: TextFacts) -> Iterator[Finding]:
    read = text.train + text.valid
    if text.limit is None or text.limit_origin is None or read < text.limit:
        return
    yield Finding(
        claim=f"no more than the first {read:,} characters are read: "
        f"data.max_chars={text.limit} ({text.limit_origin})",
        severity="note",
        remedies=[Remedy(text="data.max_chars=null reads the whole text")],
    )


RULE = Rule(
    title="Rows are left out",
    judge=judge,
    needs=(Needs.LOADER,),
    before_run=_before_run,
    kind="correctness",
    known="proved",
)
