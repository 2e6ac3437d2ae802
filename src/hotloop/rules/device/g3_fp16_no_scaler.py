"""The model trains in float16 without a gradient scaler, or the scaler leaves out many steps.

Looks at: the dtype of computation, and each GradScaler's steps.
Says so when: a training model computes in float16 and no scaler scaled a loss; or a scaler left out
    more than 1 % of the steps, and more than five (the first few find the scale).
Stays silent when: bfloat16 or float32 is used, or the scaler works.
Remedy: bfloat16 where the device has it; else GradScaler, and a smaller learning rate where it
    keeps overflowing.
Numbers: training; gradients that underflow to zero no longer do, steps that were lost are made.
Seen: examples/planted/half_precision.py.
Source: https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
"""

import ast

from hotloop.core.finding import SourceLocation
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support.costs import costing, in_steps
from hotloop.rules.support.idioms import last_name
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

LEAST, SKIPPED = 0.01, 5  # of the steps; steps
REMEDIES = (
    Remedy(text="use torch.bfloat16, where the device has it: it needs no scaler"),
    code_edit("scale the loss with torch.amp.GradScaler, unscale_ before clipping"),
)


def judge(case: Case) -> Finding | None:
    """Look for the scaler, then at the steps that it skipped."""
    half = [m for m in case.models if m.role == "train" and m.trainable and m.compute == "float16"]
    scaled = [scaler for scaler in case.scalers if scaler.enabled and scaler.scaled]
    if half and not scaled:
        return Finding(
            claim=f"{half[0].name} trains in float16 without a gradient scaler: small gradients "
            "become zero",
            severity="warn",
            places=_made_half(case) or ([half[0].place] if half[0].place else []),
            remedies=REMEDIES,
        )
    worst = max(scaled, key=lambda scaler: scaler.skipped, default=None)
    if worst is None or worst.skipped <= SKIPPED or worst.skipped < LEAST * worst.steps:
        return None
    share = worst.skipped / max(1, worst.steps)
    scale = "unknown" if worst.scale is None else f"{worst.scale:g}"
    return costing(
        case,
        in_steps(case, min(1.0, share)),
        least=0.0,
        known="measured",
        claim=f"the gradient scaler left out {worst.skipped} of {worst.steps:,} steps: float16 "
        "overflows",
        places=[worst.place] if worst.place else [],
        evidence={"last scale": scale},
        remedies=REMEDIES,
    )


def _made_half(case: Case) -> list[SourceLocation]:
    """Return where the script asks for float16: autocast, or a conversion of the model."""
    asking = [
        (module, call)
        for module, call in parse(case.sources).calls("autocast", "half", "to", "from_pretrained")
        if last_name(call) == "half" or any(map(_is_half, ast.walk(call)))
    ]
    if not asking:  # the dtype is in a variable
        asking = list(parse(case.sources).calls("autocast"))
    return [module.place(call) for module, call in asking]


def _is_half(node: ast.AST) -> bool:
    is_name = isinstance(node, ast.Name | ast.Attribute) and last_name(node) in ("float16", "half")
    return is_name or (isinstance(node, ast.Constant) and node.value == "float16")


RULE = Rule(
    title="float16 without a working gradient scaler",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=2,
    numerics="training",
    known="proved",
)
