"""The steps compute nearly as fast as this machine multiplies matrices.

Looks at: the FLOP/s of the steps against matrix products measured on this machine (--ceilings).
Says so when: they reach 80 % of it.
Stays silent when: the ceiling was not measured or is far, or nobody knows what a step computes.
Remedy: none in the kernels: fewer operations (padding, frozen parts), another dtype, another GPU.
Numbers: none.
Seen: examples/planted/large_products.py.
Source: hotloop
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.costs import compute_dtype, flop_rate

__all__ = ["RULE"]

LEAST = 0.80  # of the measured speed


def judge(case: Case) -> Finding | None:
    """Compare with the measured products."""
    rate, dtype = flop_rate(case), compute_dtype(case)
    ceiling = case.hardware.measured.get(dtype)
    if rate is None or ceiling is None or rate < LEAST * ceiling.median:
        return None
    reached = rate / ceiling.median
    return Finding(
        claim=f"the steps reach {reached:.0%} of the {dtype} speed measured here: faster kernels "
        "have little to give",
        severity="note",
        ceiling=max(1.0, 1 / reached),
        evidence={"ceiling": ceiling},
        remedies=[
            Remedy(
                text="fewer operations: less padding, no unused outputs "
                "(hotloop explain still-slow)"
            )
        ],
    )


RULE = Rule(
    title="Computation is near its ceiling",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.CEILINGS),
    kind="not worth it",
)
