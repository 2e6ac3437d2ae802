"""A step calls its model many times, one after the other, before one backward pass.

Looks at: passes of the model in training with gradients, per backward pass, and the time of the
    forward and backward rows.
Says so when: there are 8 passes or more for a backward pass, and forward and backward passes take
    25 % of the time: always a note, since only the mend shows what one call gains.
Stays silent when: each pass has a backward pass of its own (H23), Python steps through a recurrent
    layer inside the model (G39, G40), or Python reads a value for each pass: a game may answer.
Remedy: one call with all of these samples, or time steps, as one batch, where none needs the result
    of another; graphs of a batch are joined into one large graph.
Numbers: rounding. With batch normalisation the statistics are of all rows.
Seen: benchmarks/field/truth/simgnn_pairs.json; examples/planted/one_by_one.py.
Source: hotloop.
"""

from __future__ import annotations

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

MANY = 8.0  # passes of the model for one backward pass
LEAST = 0.25


def judge(case: Case) -> Finding | None:
    """Look for the model that is called most often in a step."""
    backwards = case.steps.backwards or 0.0
    models = (model for model in case.models if model.trainable)  # no transform of the data
    passes = [(model.modes.passes, model) for model in models if model.modes is not None]
    count, model = max(passes, key=lambda entry: entry[0], default=(0.0, None))
    if model is None or not backwards or count < MANY * backwards:
        return None
    if case.ledger is not None and case.ledger.is_answered:
        return None
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
            )
        ],
    )


RULE = Rule(
    title="The model is called many times for one backward pass",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=2,
    numerics="rounding",
    by_host=True,
)
