"""Training rows of a kind stand together, and are read in the same order in each epoch.

Looks at: the targets of the sampled updates, where the loss keeps them; whether the batches come
    again in the same order, or a sampler keeps it.
Says so when: the order is the same, and the targets of one update are much more alike than those of
    random rows: half of what is possible, and 8 standard deviations above random orders of the same
    rows (p < 1e-6). A note where a row is the row before it, moved on: windows of a series.
Stays silent when: the order is another one in each epoch or not known, a stream is read, an epoch
    has less than 6 updates, the model carries a state from batch to batch, or a row has no target
    of its own, as in language models.
Remedy: shuffle the rows in each epoch.
Numbers: training: each update moves the model towards one kind, away from the others.
Seen: examples/planted/sorted_rows.py.
Source: Bottou, "Stochastic Gradient Descent Tricks", 2012, section 3.1, "randomly shuffle the
    training examples"; the thresholds are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Rule, code_edit

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import TrainingOrder

__all__ = ["RULE"]

ALIKE = 0.5  # of 0 (a random order) to 1 (an update has one target)
DEVIATIONS = 8.0  # of a normal distribution that far, 1 in 1e15; 1e-6 is at 4.8
FEWEST = 6  # distinct updates


def judge(case: Case) -> Finding | None:
    """Look at how alike the targets of one update are."""
    order = case.order
    if order is None or order.alike < ALIKE or order.deviations < DEVIATIONS:
        return None
    if order.updates < FEWEST or (order.period is None and order.loader is None):
        return None
    kept = "the sampler reads the rows one after the other"
    if order.period is not None:
        kept = f"again after {order.period} updates, as {order.repeated} batches show"
    by_loader = order.loader is not None
    remedy = "shuffle=True" if by_loader else "for i in torch.randperm(len(x)).split(batch_size)"
    return Finding(
        claim=f"training rows are not shuffled, and rows of a kind stand together: {_alike(order)}",
        severity="note" if order.windows else "warn",
        places=[order.place] if order.place else [],
        evidence={"the same order": kept, "above a random order": f"{order.deviations:.0f} sigma"},
        remedies=[code_edit(f"{remedy}: another order in each epoch")],
    )


def _alike(order: TrainingOrder) -> str:
    if order.per_update is not None and order.by_chance is not None:
        return (
            f"an update has {order.per_update:.1f} classes, {order.by_chance:.1f} in a random order"
        )
    return f"targets vary within an update by {1 - order.alike:.0%} of their variance"


RULE = Rule(
    title="Training rows sorted by their target",
    judge=judge,
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
