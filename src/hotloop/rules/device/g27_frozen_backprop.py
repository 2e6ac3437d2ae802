"""The backward pass goes through layers at the model's beginning that nothing trains.

Looks at: a first part whose output requires a gradient though no optimizer holds its parameters,
    and its forward time.
Says so when: going back through it, which takes about as long as forward, is 5 % of the backward
    pass and 2 % of the wall time.
Stays silent when: that part runs under no_grad, its parameters require no gradient, or the model's
    input requires one.
Remedy: requires_grad_(False) on its parameters, or with torch.no_grad(): around it.
Numbers: bitwise the same for what is trained.
Seen: examples/planted/head_only.py.
Source: hotloop; one product of the two in a layer's backward pass is left where weights are frozen.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

OF_BACKWARD = 0.05


def judge(case: Case) -> Finding | None:
    """Estimate the backward time of the frozen part by its forward time."""
    model = next((m for m in case.models if m.frozen_graph and m.frozen_prefix_seconds), None)
    if model is None:
        return None
    passes = case.steps.count * (case.steps.backwards or 1.0)
    seconds = min((model.frozen_prefix_seconds or 0.0) * passes, case.row("backward"))
    if seconds < OF_BACKWARD * case.row("backward"):
        return None
    return costing(
        case,
        seconds,
        claim=f"the backward pass goes through {model.frozen_graph}, which nothing trains: "
        f"{case.part(seconds):.0%} of the time",
        places=[model.place] if model.place else [],
        remedies=[
            code_edit(f"model.{model.frozen_graph}.requires_grad_(False)"),
            code_edit("or with torch.no_grad(): around its call"),
        ],
    )


RULE = Rule(
    title="The backward pass goes through layers that nothing trains",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=2,
    numerics="bitwise",
)
