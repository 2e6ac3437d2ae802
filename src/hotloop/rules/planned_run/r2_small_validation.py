"""A validation of a planned run rests on so few rows that small differences are chance.

Looks at: the rows, tokens or characters that one validation reads.
Says so when: before a run, the standard error of what is measured is 1 % of an accuracy, or 0.01
    nats of a loss; three times that is a warning.
Stays silent when: the error is smaller.
Remedy: more validation data: data.validation_share, data.valid_path or training.eval_batches.
Numbers: nothing changes in what is trained from the same rows; a larger share takes rows from the
    training.
Seen: tests/diagnosis/checks/test_texts.py.
Source: hotloop; the standard error of a share p of n rows is sqrt(p (1 - p) / n), 0.5 / sqrt(n) at
    most.
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R2",
    name="small_validation",
    title="The validation set is too small to tell runs apart",
    page=__doc__ or "",
    kind="planning",
)
