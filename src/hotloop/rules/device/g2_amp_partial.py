"""Autocast is on, but hot matrix products still run in float32.

Looks at: the dtype of the profile's matrix products.
Says so when: autocast was entered and products in float32 are 20 % of the step.
Stays silent when: autocast was never entered (G1), or what is left in float32 is small.
Remedy: move the forward pass and the loss's products into the autocast region; give no .float().
Numbers: rounding.
Seen: golden cases only; not yet seen on a GPU.
Source: hotloop; threshold as G1's.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, in_steps, products

__all__ = ["RULE"]

LEAST = 0.20  # of the step


def judge(case: Case) -> Finding | None:
    """Sum the products that autocast did not cover."""
    float32_products = [op for op in products(case) if op.dtype == "float32" and op.share]
    share = sum(op.share for op in float32_products)
    if not case.process.autocast or share < LEAST:
        return None
    hottest = max(float32_products, key=lambda op: op.share)
    return costing(
        case,
        in_steps(case, share / 2),  # 16-bit products are at least twice as fast
        claim=f"autocast is on, but matrix products in float32 take {share:.0%} of a step",
        places=list(dict.fromkeys(op.place for op in float32_products if op.place)),
        evidence={"hottest": f"{hottest.name} {hottest.shapes}"},
        remedies=[
            code_edit("put the whole forward pass into the autocast region, without .float()")
        ],
    )


RULE = Rule(
    title="Hot matrix products run outside autocast",
    judge=judge,
    needs=(Needs.STEPS, Needs.PROFILE, Needs.GPU),
    under="G25",
    weight=2,
    numerics="rounding",
)
