"""A validation of a planned run rests on so few rows that small differences are chance.

Looks at: the rows, tokens or characters that one validation reads.
Says so when: before a run, the standard error of what is measured is 1 % of an accuracy, or 0.01
    nats of a loss; three times that is a warning.
Stays silent when: the error is smaller.
Remedy: more validation data: data.validation_share, data.valid_path or training.eval_batches.
Numbers: nothing changes in what is trained from the same rows; a larger share takes rows from the
    training.
Seen: tests/diagnosis/test_planned_answers.py.
Source: hotloop; the standard error of a share p of n rows is sqrt(p (1 - p) / n), 0.5 / sqrt(n) at
    most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule

if TYPE_CHECKING:
    from hotloop.core.case.planned_run import TextFacts, ValidationSize

__all__ = ["RULE"]

# Largest standard error of an accuracy, assuming independent tokens (which they are not).
ERROR_NOTE, ERROR_WARN = 0.01, 0.03
# Standard deviation of the loss of one character, nats: 1.33 over 5,120 characters of Tiny
# Shakespeare after 150 steps of preset=cpu; the means of windows of 128 characters spread as if the
# characters were independent.
SPREAD = 1.3
NOISE_NOTE, NOISE_WARN = 0.01, 0.03  # nats


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Take the standard error as the smallest meaningful difference."""
    data = planned.data
    if data is None:
        return None
    if data.text is not None:
        return _nats(data.text, data.validation)
    size = data.validation
    rows = size.rows if size.targets is None else size.targets
    error = 0.5 / math.sqrt(max(1, rows))
    if error < ERROR_NOTE:
        return None
    remedy = "raise data.validation_share, or name more rows: data.valid_path"
    if size.task is not None:
        remedy = "raise data.validation_share, or take more rows of that task"
    return Finding(
        claim=f"{_known(size, 100 * error)}, and smaller differences are chance",
        severity="warn" if error >= ERROR_WARN else "note",
        remedies=[Remedy(text=remedy)],
    )


def _known(size: ValidationSize, points: float) -> str:
    """Return the claim: what a validation reads, and its precision in points of accuracy."""
    if size.task is not None:
        return (
            f"a validation reads {size.rows:,} rows of {size.task}: what is right of them is known "
            f"to about {points:.1f} points"
        )
    if size.targets is None:
        return (
            f"a validation reads {size.rows:,} rows: its accuracy is known to about {points:.1f} "
            "points"
        )
    return (
        f"a validation reads {size.targets:,} tokens that carry loss, of {size.rows:,} rows: their "
        f"accuracy is known to about {points:.1f} points, if not worse"
    )


def _nats(text: TextFacts, size: ValidationSize) -> Finding | None:
    targets = size.targets or 1
    noise = SPREAD / math.sqrt(targets)
    if noise < NOISE_NOTE or not text.by_next_char:
        return None
    return Finding(
        claim=f"a validation reads {targets:,} characters: its loss is known to about "
        f"{noise:.1g} nats, and smaller differences are chance",
        severity="warn" if noise >= NOISE_WARN else "note",
        remedies=[
            Remedy(text="raise data.validation_share or training.eval_batches, or use more text")
        ],
    )


RULE = Rule(
    title="The validation set is too small to tell runs apart",
    before_run=judge,
    kind="planning",
    known="proved",
)
