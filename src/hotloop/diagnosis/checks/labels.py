"""Checks of labelled rows against what the run will do with them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hotloop.core.finding import Finding, Remedy
from hotloop.data.sampling.labelled_rows import Labelled
from hotloop.data.statistics.document_digests import of_store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.data.sampling.train_and_valid import Part
    from hotloop.diagnosis.checks.context import PlannedRun

__all__ = ["contradicting_rows", "leaked", "leaked_rows", "rare_classes", "small_validation"]

LEAKED_NOTE, LEAKED_WARN = 0.01, 0.05  # of the validation rows
CONTRADICTING_NOTE, CONTRADICTING_WARN = 0.01, 0.05  # of the training rows
ERROR_NOTE, ERROR_WARN = 0.01, 0.03  # of an accuracy, one standard error at worst
RARE = 10  # training rows of a class: with fewer nothing general can be learned of it
MOSTLY = 0.9  # of the training rows are of one class: a constant answer looks good


def small_validation(case: PlannedRun) -> Finding | None:
    """Tell that what is measured of a validation rests on few rows."""
    rows = len(_data(case).valid.rows)
    error = 0.5 / math.sqrt(rows)
    if error < ERROR_NOTE:
        return None
    return Finding(
        rule="R2 small_validation",
        claim=f"a validation reads {rows:,} rows: its accuracy is known to about "
        f"{100 * error:.1f} points, and smaller differences are chance",
        severity="warn" if error >= ERROR_WARN else "note",
        remedies=[Remedy(text="raise data.validation_share, or name more rows: data.valid_path")],
    )


def leaked_rows(case: PlannedRun) -> Finding | None:
    """Tell that validation asks what training has shown."""
    data = _data(case)
    known = np.unique(_texts(data, data.train))
    texts = _texts(data, data.valid)
    kept_together = Remedy(text="data.group=KEY keeps rows together that belong together")
    return leaked(float(np.isin(texts, known).mean()), kept_together)


def leaked(share: float, *remedies: Remedy) -> Finding | None:
    """Tell of a share of the validation rows that stand among those trained on."""
    if share < LEAKED_NOTE:
        return None
    return Finding(
        rule="X1 repeated_data",
        claim=f"{share:.1%} of the validation rows have the text of a training row: what is "
        "measured of them is too good",
        severity="warn" if share >= LEAKED_WARN else "note",
        remedies=[*remedies, Remedy(text="take copies out of the rows", effort="code edit")],
    )


def contradicting_rows(case: PlannedRun) -> Finding | None:
    """Tell that rows of one text have different labels: nobody can get all of them right."""
    data = _data(case)
    texts, labels = _texts(data, data.train), data.train.columns["label"][data.train.rows]
    _, text = np.unique(texts, return_inverse=True)
    table = np.zeros((int(text.max()) + 1, len(data.classes.names)), np.int64)
    np.add.at(table, (text, labels), 1)
    wrong = int((table.sum(1) - table.max(1)).sum())
    share = wrong / len(texts)
    if share < CONTRADICTING_NOTE:
        return None
    return Finding(
        rule="X2 not_what_you_think",
        claim=f"{wrong:,} training rows ({share:.1%}) have a label that most rows of the same text "
        "have not: nothing can learn both",
        severity="warn" if share >= CONTRADICTING_WARN else "note",
        remedies=[
            Remedy(
                text="look whether data.text_a, data.text_b and data.max_length leave out what"
                " tells them apart"
            ),
            Remedy(text="settle the labels", effort="code edit"),
        ],
    )


def rare_classes(case: PlannedRun) -> Finding | None:
    """Tell that a class has hardly a row, or that one has nearly all."""
    data = _data(case)
    counts, names = data.train.counts(len(data.classes.names)), data.classes.names
    most, rows = int(counts.argmax()), int(counts.sum())
    if (rare := np.flatnonzero(counts < RARE)).size:
        claim = f"{_listed([f'{names[at]!r} has {counts[at]}' for at in rare])} training rows"
    elif counts[most] >= MOSTLY * rows:
        claim = f"{counts[most] / rows:.0%} of the training rows are of class {names[most]!r}"
    else:
        return None
    return Finding(
        rule="R10 rare_class",
        claim=f"{claim}: accuracy says little of such data",
        severity="note",
        evidence={"judged by": case.parts.request.config.metric},
        remedies=[
            Remedy(text="class_weights=balanced makes a rare class count as much"),
            Remedy(text="metric=macro_f1 judges by all classes alike"),
        ],
    )


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if texts[5:] else "")


def _data(case: PlannedRun) -> Labelled:
    assert isinstance(case.parts.data, Labelled), type(case.parts.data)
    return case.parts.data


@lru_cache(maxsize=2)
def _digests(data: Labelled) -> dict[str, NDArray[np.uint64]]:
    """Return a digest of the tokens of each row, by split."""
    return {each.split: each.digests[:, 0] for each in of_store(data.store)[0]}


def _texts(data: Labelled, part: Part) -> NDArray[np.uint64]:
    """Return what tells the texts of a part's rows apart, [rows]: half of a digest."""
    return _digests(data)[part.split][part.rows]
