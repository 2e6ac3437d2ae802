"""The backward pass goes through frozen layers at the model's beginning, for gradients nobody uses.

Looks at: a frozen first part whose output still requires a gradient, and its forward time.
Says so when: going back through it, which takes about as long as forward, is 5 % of the backward
    pass and 2 % of the wall time.
Stays silent when: the frozen part runs under no_grad, or nothing before it requires a gradient.
Remedy: with torch.no_grad(): around the frozen part; no requires_grad on its input.
Numbers: bitwise the same for what is trained.
Seen: golden cases only.
Source: hotloop; one product of the two in a layer's backward pass is left where weights are frozen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import Remedy
from hotloop.judging.costing import costing
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding

__all__ = ["RULE"]

OF_BACKWARD = 0.05


def judge(case: Case) -> Finding | None:
    """Take the forward time of the frozen part for its backward time."""
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
        rule=RULE.label,
        claim=f"the backward pass goes through {model.frozen_graph}, which is frozen: "
        f"{case.part(seconds):.0%} of the time",
        places=[model.place] if model.place else [],
        remedies=[
            Remedy(text="with torch.no_grad(): around the frozen part", effort="code edit"),
            Remedy(text="its input must not require a gradient", effort="code edit"),
        ],
    )


RULE = Rule(
    id="G27",
    name="frozen_backprop",
    title="The backward pass goes through frozen layers",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=2,
    numerics="bitwise",
)
