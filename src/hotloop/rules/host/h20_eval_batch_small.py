"""Evaluation goes through its data in much smaller batches than the training does.

Looks at: the batch sizes of the loaders that evaluate and of those that train.
Says so when: evaluation takes 10 % of the time and its batches are at most a quarter as large.
Stays silent when: a row of the evaluation is as large as a training batch, or it takes little time.
Remedy: batches as large as the training's or larger: nothing is kept for a backward pass.
Numbers: rounding, of the metrics alone.
Seen: written after examples/blind/sensor_autoencoder (a loader without batch_size).
Source: hotloop.
"""

from hotloop.rules.base import WARN, Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

SMALLER = 4


def judge(case: Case) -> Finding | None:
    """Compare the loaders' batch sizes."""
    trains = max((loader.batch_size or 0 for loader in case.training_loaders), default=0)
    small = [
        loader
        for loader in case.loaders
        if loader.role == "evaluate" and 0 < SMALLER * (loader.batch_size or 0) <= trains
    ]
    if not small:
        return None
    loader = min(small, key=lambda candidate: candidate.batch_size or 0)
    seconds = case.row("evaluate") * (1 - (loader.batch_size or 0) / trains)
    return costing(
        case,
        seconds,
        least=WARN,
        claim=f"evaluation runs in batches of {loader.batch_size}, training of {trains}: it takes "
        f"{case.share('evaluate'):.0%} of the time",
        places=[candidate.place for candidate in small if candidate.place],
        remedies=[
            Remedy(text=f"DataLoader(..., batch_size={trains}) or larger for the evaluation"),
        ],
    )


RULE = Rule(
    title="Evaluation in small batches",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER, Needs.EVALUATIONS),
    under="H9",
    weight=3,
    numerics="rounding",
    experiment="evaluating",
)
