"""A part of a model gets gradients and is in no optimizer, so it is never trained.

Looks at: the parameters with a gradient after an update, which of them an optimizer holds, and
    their sums some updates later.
Says so when: an optimizer holds other parameters of the model, none holds these, and they are the
    same after eight updates: a head that was replaced after the optimizer was built, a list of
    modules that was not passed.
Stays silent when: no optimizer holds anything of the model (P8), they have no gradient (P2), or
    the script updates them by hand.
Remedy: build the optimizer after the last change of the model; or freeze them, if that is meant.
Numbers: the run changes.
Seen: examples/planted/replaced_head.py; written after a script of an author who did not know
    hotloop: Adam built before the head of the second stage.
Source: hotloop.
"""

from hotloop.core.finding import CRITICAL
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]

NAMED = 3


def judge(case: Case) -> Finding | None:
    """Report the model with the most such parameters."""
    models = [model for model in case.models if model.left_out and model.trainable]
    if not models:
        return None
    model = max(models, key=lambda candidate: candidate.left_out_parameters)
    share = min(1.0, model.left_out_parameters / model.trainable)
    more = f" and {len(model.left_out) - NAMED} more" if len(model.left_out) > NAMED else ""
    place = next((optimizer.place for optimizer in case.optimizers[-1:] if optimizer.place), None)
    return Finding(
        claim=f"{', '.join(model.left_out[:NAMED])}{more} of {model.name} get gradients and are in "
        f"no optimizer: {model.left_out_parameters:,} of {model.trainable:,} trainable parameters "
        f"({share:.1%}) are never updated",
        severity="critical" if share >= CRITICAL else "warn",
        places=[place] if place else [],
        remedies=[
            code_edit("build the optimizer after the last change of the model"),
            code_edit("requires_grad_(False), if they are not to be trained"),
        ],
    )


RULE = Rule(
    title="A part of the model is in no optimizer",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.OPTIMIZER),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
