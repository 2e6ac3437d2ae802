"""Gradients are computed for a model that no optimizer updates.

Looks at: the outermost modules that are called with autograd on in training, and which of their
    trainable parameters an optimizer holds.
Says so when: none of a module's trainable parameters is in any optimizer (a teacher, a reference
    model, a target network, a frozen trunk without no_grad), and steps are faster while its
    weights require no gradient.
Stays silent when: an optimizer holds some of them. A note where nothing was measured.
Remedy: with torch.no_grad() around its call, or requires_grad_(False) where gradients pass through.
Numbers: bitwise the same for what is trained.
Seen: written after examples/blind/char_student, which no rule named.
Source: hotloop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

if TYPE_CHECKING:
    from hotloop.core.case.objects import Model

__all__ = ["RULE", "idle_models"]


def judge(case: Case) -> Finding | None:
    """Report the largest model without an optimizer; what it costs, the experiment measures."""
    model = max(idle_models(case), key=lambda candidate: candidate.trainable, default=None)
    if model is None:
        return None
    return Finding(
        claim=f"{model.name} ({model.trainable:,} parameters) runs with autograd on, and no "
        "optimizer updates it",
        severity="note",
        places=model.call_places,
        remedies=[
            code_edit("with torch.no_grad(): around its call"),
            code_edit("model.requires_grad_(False)"),
        ],
    )


def idle_models(case: Case) -> list[Model]:
    """Return the models that no optimizer updates; [] where that is all of them.

    Then their parameters may be updated by hand.
    """
    trained = [model for model in case.models if model.role == "train" and model.trainable]
    idle = [model for model in trained if model.unoptimised]
    return idle if len(idle) < len(trained) else []


RULE = Rule(
    title="Gradients that nobody uses",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.OPTIMIZER),
    weight=3,
    numerics="bitwise",
    experiment="unused gradients",
    only_measured=True,
)
