"""Checks of rows of tokens, with labels or without: what of them is cut off, and padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hotloop.core.finding import CRITICAL, WARN, Finding, Remedy, by_share
from hotloop.data.sampling.labelled_rows import Labelled
from hotloop.data.sampling.padded_widths import rounded_up
from hotloop.data.sampling.text_rows import Texts
from hotloop.data.sampling.token_rows import TokenRows
from hotloop.recipes.task_router.rows import TaskRows

if TYPE_CHECKING:
    from hotloop.diagnosis.checks.context import PlannedRun

__all__ = ["cut_tokens", "padding"]

CUT_NOTE, CUT_WARN = 0.01, 0.10  # of the tokens
PADDING = 0.05  # of what is computed
LOOKED_AT: Final = 200  # optimizer steps of the first epoch


def cut_tokens(case: PlannedRun) -> Finding | None:
    """Tell how much of the texts lies beyond data.max_length, and is never read."""
    data = case.parts.data
    assert isinstance(data, (Labelled, Texts, TaskRows)), type(data)
    about = data.store.about["splits"][data.train.split]
    cut = int(about["cut_off_tokens"])
    share = cut / max(1, cut + int(about["tokens"]))
    if share < CUT_NOTE:
        return None
    length = case.parts.request.config.data.max_length
    return Finding(
        rule="X3 length",
        claim=f"{cut:,} of the tokens to train on ({share:.0%}) are cut off: their rows are longer "
        f"than data.max_length={length}",
        severity="warn" if share >= CUT_WARN else "note",
        remedies=[
            Remedy(text="raise data.max_length as far as memory and the model's positions allow")
        ],
    )


def padding(case: PlannedRun) -> Finding | None:
    """Tell how much of what is computed is padding, by the first steps of an epoch."""
    rows, parts = case.parts.job.train, case.parts
    if not isinstance(rows, TokenRows) or rows.form.layout == "flat":
        return None
    real = computed = 0
    for step in range(min(LOOKED_AT, parts.feed.steps_per_epoch)):
        first = step * parts.feed.batch_size
        count = min(parts.feed.batch_size, len(rows) - first)
        for at, many in parts.feed.cut(rows, 0, first, count, parts.plan.micro_batch):
            lengths = rows.lengths[rows.ids(0, at, many)]
            real += int(lengths.sum())
            computed += many * rounded_up(int(lengths.max()), rows.form.round_to)
    share = 1 - real / computed
    if share < PADDING:
        return None
    return Finding(
        rule="D22 pad_waste",
        claim=f"{share:.0%} of what the model computes on is padding",
        severity=by_share(share, warn=WARN, critical=CRITICAL),
        evidence={
            "median row": f"{int(np.median(rows.lengths[rows.chosen]))} of up to {rows.longest} "
            "tokens"
        },
        remedies=[Remedy(text=_less_padding(case, is_packed=rows.is_packed))],
    )


def _less_padding(case: PlannedRun, *, is_packed: bool) -> str:
    if isinstance(case.parts.data, TaskRows):
        return "smaller micro batches (training.accumulation) hold rows of more like length"
    return f"{'data.packing=false ' * is_packed}data.layout=flat computes none"
