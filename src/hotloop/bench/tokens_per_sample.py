"""Computes the mean number of tokens of a recipe's samples, without padding, for rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hotloop.data.sampling.token_rows import TokenRows

if TYPE_CHECKING:
    from hotloop.session.job import Job

__all__ = ["Work", "work_of"]

_AT_ONCE: Final = 256  # rows that are counted together
_ROWS: Final = 16_384  # rows at the start of an epoch that stand for longer data


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A mean training sample."""

    tokens: float  # of its text, without padding
    targets: float  # tokens that carry loss; 1, the label, for a classifier


def work_of(job: Job) -> Work:
    """Return the mean over the training samples; those of a text of characters are all alike."""
    rows = job.train
    if not isinstance(rows, TokenRows):
        sample = rows.batch(0, 0, 1)
        return Work(tokens=sample.tokens, targets=sample.targets)
    tokens = float(rows.lengths[rows.chosen].mean())
    if not job.learns_tokens:
        return Work(tokens=tokens, targets=1.0)
    count = min(len(rows), _ROWS)
    targets = sum(
        rows.batch(0, start, min(_AT_ONCE, count - start)).targets
        for start in range(0, count, _AT_ONCE)
    )
    return Work(tokens=tokens, targets=targets / count)
