"""Chooses the experiments that make the model's calls again, on other sizes."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Final

from hotloop.core.case.case import IN_STEP
from hotloop.core.case.experiment import Experiment
from hotloop.rules.host.h25_many_calls import called_often

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import BatchFacts

__all__ = ["OF_OPERATORS", "resized_calls"]

_LEAST: Final = 0.03  # share of the wall time from which it is worth an experiment
OF_OPERATORS: Final = (  # rows of the ledger
    "dead",
    "padding",
    "repeated",
    "recomputed",
    "frozen",
    "moved",
    "inefficient",
    "useful",
)
_MICRO_BATCHES: Final = 1.5  # backward passes of a step from which they may be joined


def resized_calls(case: Case) -> list[Experiment]:
    """Return the experiments that make the model's calls again, on other sizes."""
    experiments = []
    if (kept := _kept_positions(case)) is not None:
        what = "with batches of rows of similar length"
        experiments.append(Experiment(name="cut rows", what=what, row="padding", fraction=kept))
    train = [batch for batch in case.batches if batch.role == "train"]
    targets = [batch.targets for batch in train if batch.targets is not None]
    cut = max((batch.above_longest for batch in train), default=0.0)
    of_targets = max((rows.above_longest for rows in targets), default=0.0)
    name = "cut to the longest row"
    if cut >= _LEAST and all(len(set(batch.widths)) == 1 for batch in train):
        what = "with each batch cut to its longest row"
        experiments.append(Experiment(name=name, what=what, fraction=1 - cut))
    elif of_targets >= _LEAST and all(len(set(rows.widths)) == 1 for rows in targets):
        what = "with the labels of each batch cut to their longest row"
        width = targets[0].widths[0]
        cut_labels = Experiment(name=name, what=what, fraction=1 - of_targets, count=width)
        experiments.append(cut_labels)
    if called_often(case) is not None:
        what = "with the calls made under no_grad, and one call on all their inputs for gradients"
        experiments.append(Experiment(name="joined calls", what=what))
    backwards = case.steps.backwards or 1
    if backwards >= _MICRO_BATCHES and case.steps.optimizers == 1:
        step = sum(map(case.row, IN_STEP))
        fixed = sum(map(case.row, ("data wait", "host to device", "optimizer"))) / step
        what = "with micro batches joined"
        experiments.append(Experiment(name="joined batches", what=what, fraction=fixed))
    return experiments


def _kept_positions(case: Case) -> float | None:
    """Return the share of positions that are left without avoidable padding; None: next to all.

    Where lengths are known, they are those of the same rows in batches of similar length.
    """
    batches = [batch for batch in case.batches if batch.role == "train" and batch.padding]
    if batches:
        most = max(batches, key=lambda batch: batch.padding or 0.0)
        share = 1 - _sorted_share(most, case) if most.lengths else most.padding or 0.0
        return 1 - share if share >= _LEAST else None
    if case.has_full_rows:
        return None
    rows = case.ledger.rows if case.ledger is not None else ()
    seconds = {row.name: row.seconds for row in rows if row.name in OF_OPERATORS}
    padding = seconds.get("padding", 0.0)
    return 1 - padding / sum(seconds.values()) if case.part(padding) >= _LEAST else None


def _sorted_share(batch: BatchFacts, case: Case) -> float:
    """Return the positions of the sampled rows, sorted by length, as a share of what they are.

    An epoch of few batches is sorted into as many, however often its rows were sampled.
    """
    of_epoch = (one.batches for one in case.loaders if one.key == batch.loader)
    count = max(1, min(batch.sampled, next(of_epoch, None) or batch.sampled))
    size = math.ceil(len(batch.lengths) / count)
    ordered = sorted(batch.lengths)
    chunks = [ordered[first : first + size] for first in range(0, len(ordered), size)]
    width = fmean(batch.widths) if batch.widths else max(ordered)
    return min(1.0, sum(chunk[-1] * len(chunk) for chunk in chunks) / (width * len(ordered)))
