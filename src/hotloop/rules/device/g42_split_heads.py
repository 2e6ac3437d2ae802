"""The heads of attention are computed one by one.

Looks at: the recorded operators: two or more attentions of the same shapes whose queries, keys and
    values are products of one input, each head with weights of its own, as in an nn.ModuleList of
    heads.
Says so when: an experiment measured a gain of 3 % or more by one product and one attention for all
    heads, forward and backward, on tensors of these shapes; without an experiment, as a note, when
    they take 10 % of the time.
Stays silent when: heads share weights, queries and keys have other inputs (cross-attention), or all
    heads at once are no faster.
Remedy: one nn.Linear for queries, keys and values of all heads, view(batch, length, heads, size)
    and one attention, such as scaled_dot_product_attention.
Numbers: rounding. The initial weights and dropout are drawn in another order.
Seen: examples/planted/split_heads.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Sum what the recorded operators took."""
    rewrites = of_kind(case, "split heads")
    heads = max((one.in_loop for one in rewrites), default=0)
    return rewritten(
        case,
        rewrites,
        claim=f"{heads} heads of attention are computed one by one",
        remedies=[
            code_edit(
                "one nn.Linear for queries, keys and values of all heads, then "
                ".view(batch, length, heads, size) and one attention"
            )
        ],
    )


RULE = Rule(
    title="Heads of attention are computed one by one",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="split heads",
    only_measured=True,
)
