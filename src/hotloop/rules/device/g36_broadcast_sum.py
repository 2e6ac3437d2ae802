"""A matrix product, or the distances of all pairs, are written as a broadcast and a sum.

Looks at: the recorded operators: a product or a difference of two tensors that both are broadcast,
    so that the result is far larger than both, and a sum over a dimension that both have. The
    difference is squared, made absolute or given to a norm. The lines are those of the operators.
Says so when: an experiment measured a gain of 3 % or more by a matrix product or torch.cdist on
    tensors of these shapes; without an experiment, as a note, when it takes 10 % of the time.
Stays silent when: anything else reads the large result, only one of both is broadcast, or the other
    form gives other values or is no faster.
Remedy: torch.einsum or a matrix product; for squared distances |a|^2 + |b|^2 - 2 a b, else
    torch.cdist.
Numbers: rounding. |a|^2 + |b|^2 - 2 a b loses digits where distances are small beside the norms,
    and may fall below 0: clamp it. examples/pairs/t25: losses differ by 7e-4 after 120 steps.
Seen: examples/pairs/t25; examples/planted/all_pairs.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/generated/torch.cdist.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]

OTHERS = {
    "product": "torch.einsum, or a matrix product, makes the sums without the large tensor",
    "squared": "squared distances are (a**2).sum(-1)[:, None] + (b**2).sum(-1) - 2 * a @ b.T, "
    "clamped at 0: no tensor of all differences; or torch.cdist(a, b) ** 2",
    "absolute": "torch.cdist(a, b, p=1) makes no tensor of all differences",
    "norm": "torch.cdist(a, b) makes no tensor of all differences",
}


def judge(case: Case) -> Finding | None:
    """Sum what the recorded operators took."""
    rewrites = of_kind(case, "contraction")
    forms = list(dict.fromkeys(one.form for one in rewrites))
    what = "a matrix product is" if forms[:1] == ["product"] else "distances of all pairs are"
    return rewritten(
        case,
        rewrites,
        claim=f"{what} written as a broadcast and a sum",
        remedies=[code_edit(OTHERS[form]) for form in forms],
    )


RULE = Rule(
    title="A product is written as a broadcast and a sum",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="contraction",
    only_measured=True,
)
