"""The loss broadcasts: each prediction is compared with the targets of all rows.

Looks at: the differences of predictions and targets in the recorded steps, and what is done with
    them until the loss; torch's mse_loss, smooth_l1_loss and huber_loss among them.
Says so when: one has the shape [n, 1] and the other [n], one of them is trained, and all n x n
    differences are summed up into the loss.
Stays silent when: both are trained, or none; the differences are used for something else, or go
    through a kernel, a mask or weights for each pair; or the step also takes the differences of all
    predictions from one another, as distances of two sets do.
Remedy: give both the same shape, as with target.unsqueeze(1) or prediction.squeeze(1).
Numbers: the run changes: with squares the best that such a model can learn is the mean target.
Seen: examples/planted/crossed_loss.py; torch warns of it in its own functions ("Using a target size
    ... that is different to the input size"), once, and not where a script takes the difference.
Source: https://docs.pytorch.org/docs/stable/notes/broadcasting.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Report the lines."""
    losses = case.ledger.crossed if case.ledger is not None else ()
    if not losses:
        return None
    first = losses[0]
    rows = max(*first.prediction, *first.target)
    return Finding(
        claim=f"the loss compares each of {rows} predictions with the targets of all {rows} rows: "
        f"the shapes {list(first.prediction)} and {list(first.target)} are broadcast",
        severity="critical",
        places=[loss.place for loss in losses],
        evidence={
            "shape of the predictions": f"{list(first.prediction)}",
            "shape of the targets": f"{list(first.target)}",
        },
        remedies=[code_edit("give predictions and targets one shape, as with target.unsqueeze(1)")],
    )


RULE = Rule(
    title="Predictions are compared with the targets of other rows",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
