"""scaled_dot_product_attention was called, but none of its fused kernels took the call.

Looks at: which kernel it resolves to, and why.
Says so when: it is the math form, on a GPU.
Stays silent when: a fused kernel runs, or on a CPU, where the forms differ by some percent.
Remedy: is_causal=True in place of a mask of your own, 16 bit (before Ampere: float16), a head size
    up to 256, no mask that requires a gradient.
Numbers: rounding.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

import ast

from hotloop.core.case.objects import Model
from hotloop.core.finding import SourceLocation
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

_AMPERE = (8, 0)
SWITCHES = ("enable_flash_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp")
REMEDY = code_edit(
    "is_causal=True in place of a mask of your own, and 16 bit (hotloop explain sdpa-unavailable)"
)
FLOAT16 = code_edit(
    "float16 with torch.amp.GradScaler: no fused kernel takes bfloat16 before capability 8.0"
)
SWITCHED_ON = Remedy(text="leave the fused kernels switched on: take these lines out")


def judge(case: Case) -> Finding | None:
    """Look for the math form."""
    for model in case.models:
        for part in model.attention:
            if part.kind == "sdpa" and part.kernel == "math" and model.role == "train":
                why = f": {part.why_math}" if part.why_math else ""
                switches = _switched_off(case) if part.why_math else []
                places = switches or _attending(case)
                if not places and model.place is not None:
                    places = [model.place]
                return Finding(
                    claim=f"attention of {model.name} runs in the math form, no fused kernel{why}",
                    severity="warn",
                    places=places,
                    evidence={"calls per forward pass": f"{part.calls:g}"},
                    remedies=[SWITCHED_ON if switches else _remedy(case, model)],
                )
    return None


def _remedy(case: Case, model: Model) -> Remedy:
    too_old = (case.hardware.capability or _AMPERE) < _AMPERE
    return FLOAT16 if too_old and model.compute == "bfloat16" else REMEDY


def _switched_off(case: Case) -> list[SourceLocation]:
    """Return where the script switches fused kernels off."""
    return [
        module.place(call)
        for module, call in parse(case.sources).calls(*SWITCHES)
        if any(isinstance(each, ast.Constant) and each.value is False for each in call.args)
    ]


def _attending(case: Case) -> list[SourceLocation]:
    """Return where the script calls scaled_dot_product_attention."""
    calls = parse(case.sources).calls("scaled_dot_product_attention")
    return [module.place(call) for module, call in calls]


RULE = Rule(
    title="Fused attention falls back to the slow form",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.GPU),
    under="G25",
    weight=2,
    numerics="rounding",
    known="proved",
)
