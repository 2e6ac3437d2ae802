"""Checks of rows of several tasks against what the run will do with them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hotloop.core.finding import Finding, Remedy
from hotloop.data.statistics.document_digests import of_store
from hotloop.diagnosis.checks.labels import ERROR_NOTE, ERROR_WARN, leaked
from hotloop.recipes.task_router.rows import TaskRows

if TYPE_CHECKING:
    from hotloop.diagnosis.checks.context import PlannedRun

__all__ = ["few_rows", "leaked_rows", "small_validation"]

FEW = 0.02  # of the training rows: a router is mostly right without ever taking that task


def small_validation(case: PlannedRun) -> Finding | None:
    """Tell that what is measured of the smallest task rests on few rows."""
    data = _data(case)
    counts = np.bincount(data.mixed.task[data.valid.rows], minlength=len(data.names))
    least = int(counts.argmin())
    error = 0.5 / math.sqrt(max(1, int(counts[least])))
    if error < ERROR_NOTE:
        return None
    return Finding(
        rule="R2 small_validation",
        claim=f"a validation reads {counts[least]:,} rows of {data.names[least]}: what is right of "
        f"them is known to about {100 * error:.1f} points, and smaller differences are chance",
        severity="warn" if error >= ERROR_WARN else "note",
        remedies=[Remedy(text="raise data.validation_share, or take more rows of that task")],
    )


def few_rows(case: PlannedRun) -> Finding | None:
    """Tell that a task has hardly a row beside the others."""
    data = _data(case)
    counts = np.bincount(data.mixed.task[data.train.rows], minlength=len(data.names))
    least = int(counts.argmin())
    if counts[least] >= FEW * counts.sum():
        return None
    return Finding(
        rule="R10 rare_class",
        claim=f"{counts[least]:,} of {counts.sum():,} training rows are of {data.names[least]}: "
        "its adapter is hardly trained, and routing is mostly right without it",
        severity="note",
        remedies=[Remedy(text="limit the other tasks (data.sizes={task: rows}), or leave it out")],
    )


def leaked_rows(case: PlannedRun) -> Finding | None:
    """Tell that validation asks what training has shown."""
    data = _data(case)
    digests = {each.split: each.digests[:, 0] for each in of_store(data.store)[0]}
    known = np.unique(digests[data.train.split][data.train.rows])
    return leaked(float(np.isin(digests[data.valid.split][data.valid.rows], known).mean()))


def _data(case: PlannedRun) -> TaskRows:
    assert isinstance(case.parts.data, TaskRows), type(case.parts.data)
    return case.parts.data
