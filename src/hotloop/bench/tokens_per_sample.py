"""What a sample of a recipe's data holds on average: rates count it, and no padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hotloop.data.sampling.token_rows import TokenRows

if TYPE_CHECKING:
    from hotloop.session.job import Job

__all__ = ["Work", "work_of"]

_AT_ONCE: Final = 256  # rows that are counted together
_ROWS: Final = 16_384  # of longer data the first ones of an epoch speak for all


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A mean training sample."""

    tokens: float  # of its text; padding is none
    targets: float  # of them that carry loss; of a classifier its label


def work_of(job: Job) -> Work:
    """Return the mean of the training samples, which of a text of characters are all alike."""
    rows = job.train
    if not isinstance(rows, TokenRows):
        sample = rows.batch(0, 0, 1)
        return Work(tokens=sample.tokens, targets=sample.targets)
    tokens = float(rows.lengths[rows.chosen].mean())
    if not job.learns_tokens:
        return Work(tokens=tokens, targets=1.0)
    many = min(len(rows), _ROWS)
    targets = sum(
        rows.batch(0, at, min(_AT_ONCE, many - at)).targets for at in range(0, many, _AT_ONCE)
    )
    return Work(tokens=tokens, targets=targets / many)
