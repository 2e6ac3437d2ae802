"""scaled_dot_product_attention was called, but none of its fused kernels took the call.

Looks at: which kernel it resolves to, and why.
Says so when: it is the math form, on a GPU.
Stays silent when: a fused kernel runs, or on a CPU, where the forms differ by some percent.
Remedy: is_causal=True in place of a mask of your own, 16 bit, a head size up to 256, no mask that
    requires a gradient.
Numbers: rounding.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for the math form."""
    for model in case.models:
        for part in model.attention:
            if part.kind == "sdpa" and part.kernel == "math" and model.role == "train":
                why = f": {part.why_math}" if part.why_math else ""
                return Finding(
                    claim=f"attention of {model.name} runs in the math form, no fused kernel{why}",
                    severity="warn",
                    places=[model.place] if model.place else [],
                    evidence={"calls per forward pass": f"{part.calls:g}"},
                    remedies=[
                        code_edit(
                            "is_causal=True in place of a mask of your own, and 16 bit "
                            "(hotloop explain sdpa-unavailable)"
                        )
                    ],
                )
    return None


RULE = Rule(
    title="Fused attention falls back to the slow form",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.GPU),
    under="G25",
    weight=2,
    numerics="rounding",
    known="proved",
)
