"""Checks of rows with answers against what the run will do with them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from hotloop.core.finding import Finding, Remedy
from hotloop.data.sampling.mapped_rows import RowMap
from hotloop.data.sampling.text_rows import Texts
from hotloop.data.statistics.document_digests import of_store
from hotloop.data.tokenising.token_store import FILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.data.sampling.train_and_valid import Part
    from hotloop.diagnosis.checks.context import PlannedRun

__all__ = ["leaked_texts", "repeated_texts", "small_validation"]

LEAKED_NOTE, LEAKED_WARN = 0.01, 0.05  # of the validation texts
REPEATED_NOTE, REPEATED_WARN = 0.10, 0.30  # of the training texts
# Of a token accuracy, one standard error at worst, were tokens independent: which they are not.
ERROR_NOTE, ERROR_WARN = 0.01, 0.03
_AT_ONCE: Final = 256  # validation rows that are counted together


def small_validation(case: PlannedRun) -> Finding | None:
    """Tell that what is measured of a validation rests on few tokens."""
    parts, valid = case.parts, case.parts.job.valid
    read = len(valid)
    if case.training.eval_batches is not None:
        read = min(read, case.training.eval_batches * parts.plan.micro_batch)
    targets = sum(
        valid.batch(0, at, min(_AT_ONCE, read - at)).targets for at in range(0, read, _AT_ONCE)
    )
    error = 0.5 / math.sqrt(targets)
    if error < ERROR_NOTE:
        return None
    return Finding(
        rule="R2 small_validation",
        claim=f"a validation reads {targets:,} tokens that carry loss, of {read:,} rows: their "
        f"accuracy is known to about {100 * error:.1f} points, if not worse, and smaller "
        "differences are chance",
        severity="warn" if error >= ERROR_WARN else "note",
        remedies=[Remedy(text="raise data.validation_share, or name more rows: data.valid_path")],
    )


def leaked_texts(case: PlannedRun) -> Finding | None:
    """Tell that validation asks what training has shown."""
    data = _data(case)
    texts = _texts(data, data.valid)
    share = float(np.isin(texts, _texts(data, data.train)).mean())
    if share < LEAKED_NOTE:
        return None
    return Finding(
        rule="X1 repeated_data",
        claim=f"{share:.1%} of the validation texts are training texts as well, question and "
        "answer: the validation loss is too good",
        severity="warn" if share >= LEAKED_WARN else "note",
        remedies=[Remedy(text="take copies out of the rows", effort="code edit")],
    )


def repeated_texts(case: PlannedRun) -> Finding | None:
    """Tell that much of the training texts stands there more than once."""
    data = _data(case)
    texts = _texts(data, data.train)
    copies = len(texts) - len(np.unique(texts))
    share = copies / len(texts)
    if share < REPEATED_NOTE:
        return None
    return Finding(
        rule="X1 repeated_data",
        claim=f"{copies:,} of {len(texts):,} training texts ({share:.0%}) are copies of others",
        severity="warn" if share >= REPEATED_WARN else "note",
        remedies=[Remedy(text="take copies out of the rows", effort="code edit")],
    )


def _data(case: PlannedRun) -> Texts:
    assert isinstance(case.parts.data, Texts), type(case.parts.data)
    return case.parts.data


@lru_cache(maxsize=2)
def _digests(data: Texts) -> dict[str, NDArray[np.uint64]]:
    """Return a digest of the tokens of each text, by split."""
    return {each.split: each.digests[:, 0] for each in of_store(data.store)[0]}


def _texts(data: Texts, part: Part) -> NDArray[np.uint64]:
    """Return what tells the texts of a part apart: half of a digest each, of packed rows as well.

    A row that is not packed is one text.
    """
    found, file = _digests(data)[part.split], RowMap(data.store.folder / part.split / FILE)
    if "seq_lengths" not in file.names:
        return found[part.rows]
    row = np.arange(file.rows).repeat(file.counts("seq_lengths"))
    return found[np.isin(row, part.rows)]
