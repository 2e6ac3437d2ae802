"""Most of the GPU's time goes into element by element operations, which only move memory.

Looks at: the profile's operators on the GPU.
Says so when: activations, norms, sums and copies take 40 % of a step.
Stays silent when: matrix products fill it.
Remedy: compile the model: neighbours become one kernel; or fused layers.
Numbers: rounding.
Seen: golden cases only; not yet seen on a GPU.
Source: threshold of hotloop; gains of 14-45 % by compiling are others' (page of compile).
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, option
from hotloop.rules.support.costs import costing, in_steps

__all__ = ["RULE"]

LEAST, SHOWN = 0.40, 3  # of a step; operators
SMALL = frozenset(
    {"add", "sub", "mul", "div", "pow", "exp", "sqrt", "rsqrt", "neg", "where", "copy", "fill"}
    | {"relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "_softmax", "threshold_backward"}
    | {"gelu_backward", "silu_backward", "_softmax_backward_data", "native_dropout"}
    | {"native_layer_norm", "native_layer_norm_backward", "native_group_norm", "mean", "sum"}
    | {"native_batch_norm", "native_batch_norm_backward", "cudnn_batch_norm", "cat", "clone"}
)


def judge(case: Case) -> Finding | None:
    """Sum the operators that are no products, attention or optimizer updates."""
    small = [
        op
        for op in case.operators
        if op.device == "cuda" and op.name.rpartition("::")[2].rstrip("_") in SMALL
    ]
    share = sum(op.share for op in small)
    if share < LEAST:
        return None
    hottest = sorted(small, key=lambda op: -op.share)[:SHOWN]
    return costing(
        case,
        in_steps(case, share),
        claim=f"element by element operations take {share:.0%} of a step on the GPU",
        places=list(dict.fromkeys(op.place for op in hottest if op.place)),
        evidence={op.name: f"{op.share:.0%} of a step" for op in hottest},
        remedies=[option("compilation makes one kernel of neighbours", technique="compile")],
    )


RULE = Rule(
    title="Most of the GPU's time goes into small operations",
    judge=judge,
    needs=(Needs.STEPS, Needs.PROFILE, Needs.GPU),
    under="G25",
    weight=2,
    numerics="rounding",
)
