"""Gradients are computed for a model that no optimizer updates.

Looks at: the outermost modules that are called with gradients in training, and which of their
    trainable parameters an optimizer holds.
Says so when: none of a module's trainable parameters is in any optimizer: a teacher, a reference
    model or a frozen trunk without no_grad.
Stays silent when: an optimizer holds some of them.
Remedy: with torch.no_grad() around its call, or requires_grad_(False) where gradients pass through.
Numbers: bitwise the same for what is trained.
Seen: written after examples/blind/char_student, which no rule named.
Source: hotloop.
"""

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Report the largest model without an optimizer; its share of backward is an upper bound."""
    trained = [model for model in case.models if model.role == "train" and model.trainable]
    idle = [model for model in trained if model.unoptimised]
    if not idle or len(idle) == len(trained):  # parameters may be updated by hand
        return None
    model = max(idle, key=lambda candidate: candidate.trainable)
    part = model.trainable / sum(candidate.trainable for candidate in trained)
    return costing(
        case,
        part * case.row("backward"),
        least=ABSTAIN,
        claim=f"gradients of {model.name} ({model.trainable:,} parameters) are computed and no "
        "optimizer uses them",
        places=model.call_places,
        evidence={"its part of all trainable parameters": f"{part:.0%}"},
        remedies=[
            code_edit("with torch.no_grad(): around its call"),
            code_edit("model.requires_grad_(False)"),
        ],
    )


RULE = Rule(
    title="Gradients that nobody uses",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.OPTIMIZER),
    weight=3,
    numerics="bitwise",
    experiment="dead line",
)
