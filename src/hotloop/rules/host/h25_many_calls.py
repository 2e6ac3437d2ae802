"""A step calls its model many times, one after the other, before one backward pass.

Looks at: passes of the model in training with gradients, per backward pass, and the time of the
    forward and backward rows.
Says so when: there are 8 passes or more for a backward pass, and forward and backward passes take
    25 % of the time: a note, unless an experiment gained 3 % or more, which makes the calls of a
    step again without a graph, and one call of all their rows with a backward pass. Independent
    calls need not be made twice, and gain more.
Stays silent when: each pass has a backward pass of its own (H23), or Python steps through a
    recurrent layer inside the model (G39, G40).
Remedy: one call with all of these samples, or time steps, as one batch, where none needs the
    result of another; graphs of a batch are joined into one large graph. Where a game or a sample
    depends on each call: calls without gradients, and one call of all states before the loss.
Numbers: rounding. With batch normalisation the statistics are of all rows, dropout draws anew.
Seen: benchmarks/field/truth/simgnn_pairs.json and cartpole_reinforce.json;
    examples/planted/one_by_one.py.
Source: hotloop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing

if TYPE_CHECKING:
    from hotloop.core.case.objects import Model

__all__ = ["RULE", "called_often"]

MANY = 8.0  # passes of the model for one backward pass
LEAST = 0.25


def judge(case: Case) -> Finding | None:
    """Look for the model that is called most often in a step."""
    found = called_often(case)
    if found is None:
        return None
    model, count = found
    backwards = case.steps.backwards or 0.0
    return costing(
        case,
        case.row("forward") + case.row("backward"),
        least=LEAST,
        severity="note",
        claim=f"a step calls {model.name} {count:,.0f} times, one after the other, for "
        f"{backwards:,.0f} backward pass{'es' * (backwards != 1)}",
        places=list(model.call_places),
        remedies=[
            code_edit(
                "call it once with all these samples or time steps as one batch, where none needs "
                "the result of another; join the graphs of a batch into one"
            ),
            code_edit(
                "where a game or a sample depends on each call: make the calls under "
                "torch.no_grad(), keep their inputs, and call the model once on all of them before "
                "the loss"
            ),
        ],
    )


def called_often(case: Case) -> tuple[Model, float] | None:
    """Return the model that a step calls many times for a backward pass, and how often."""
    backwards = case.steps.backwards or 0.0
    models = (model for model in case.models if model.trainable)  # no transform of the data
    passes = [(model.modes.passes, model) for model in models if model.modes is not None]
    count, model = max(passes, key=lambda entry: entry[0], default=(0.0, None))
    if model is None or not backwards or count < MANY * backwards:
        return None
    return model, count


RULE = Rule(
    title="The model is called many times for one backward pass",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=2,
    numerics="rounding",
    experiment="joined calls",
    by_host=True,
)
