"""The weights have a number format in which this processor is slow.

Looks at: the formats of the trained weights, and an experiment with float32 in their place.
Says so when: nearly all weights are float64, or on a CPU float16 or bfloat16, and steps in float32
    are faster by what the experiment measured.
Stays silent when: weights are float32, as torch makes them; a note without the experiment.
Remedy: float32: cast what numpy made (astype, torch.as_tensor(..., dtype=torch.float32)).
Numbers: training: results differ by the rounding of the format.
Seen: examples/planted/double_weights.py; written after a script of an author who did not know
    hotloop: a numpy panel in float64, and a net cast to its type.
Source: hotloop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.device_moves import where_converted

if TYPE_CHECKING:
    from hotloop.core.case.objects import Model

__all__ = ["RULE", "slow_format"]

MOST = 0.9  # of the weights


def slow_format(model: Model, case: Case) -> str | None:
    """Return the format of nearly all weights of a trained model, if it is a slow one here."""
    slow = ("float64",) if case.on_gpu else ("float64", "float16", "bfloat16")
    numbers = sum(model.dtypes.values())
    return next(
        (
            dtype.removeprefix("torch.")
            for dtype, count in model.dtypes.items()
            if dtype.removeprefix("torch.") in slow and count >= MOST * numbers
            if model.role == "train" and model.trainable
        ),
        None,
    )


def judge(case: Case) -> Finding | None:
    """Report the largest such model; its whole compute is an upper bound."""
    slow = [model for model in case.models if slow_format(model, case)]
    if not slow:
        return None
    model = max(slow, key=lambda candidate: candidate.trainable)
    return costing(
        case,
        case.computing("forward", "backward", "optimizer"),
        claim=f"the weights of {model.name} are {slow_format(model, case)}",
        places=where_converted(case, model),
        remedies=[code_edit("make weights and data float32, as torch does by itself")],
    )


RULE = Rule(
    title="A number format in which the processor is slow",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=2,
    numerics="training",
    experiment="float32",
    only_measured=True,
)
