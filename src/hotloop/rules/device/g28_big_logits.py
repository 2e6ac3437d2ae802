"""The output over a large vocabulary takes a large part of the GPU's memory.

Looks at: the shape of the model's output, and the peak of memory.
Says so when: the output, of 8,192 classes or more, and its gradient in float32 are 20 % of the
    peak.
Stays silent when: the vocabulary is small, or the peak unknown.
Remedy: a loss that makes the logits in pieces (fused linear cross-entropy), or only for positions
    that carry loss. It saves memory, not time.
Numbers: rounding.
Seen: golden cases only; not yet seen on a GPU.
Source: https://github.com/linkedin/Liger-Kernel (FusedLinearCrossEntropy)
"""

from math import prod

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]

LEAST = 0.20  # of the peak
VOCABULARY = 8192  # classes
FLOAT = 4  # bytes: the loss is computed in float32


def judge(case: Case) -> Finding | None:
    """Compare logits and their gradient with the peak."""
    peak = case.process.allocator.get("peak")
    model = max(case.models, key=lambda model: prod(model.output or (0,)))
    size = 2 * FLOAT * prod(model.output or (0,))
    if not peak or not model.output or model.output[-1] < VOCABULARY or size < LEAST * peak:
        return None
    return Finding(
        claim=f"logits {' x '.join(map(str, model.output))} and their gradient take "
        f"{bytes_(size)} of {bytes_(peak)}",
        severity="note",
        places=[model.place] if model.place else [],
        remedies=[
            code_edit(
                "compute head and loss in pieces, such as Liger's fused linear cross-entropy"
            ),
            code_edit("make logits only where labels are not -100"),
        ],
    )


RULE = Rule(
    title="The logits take a large part of the memory",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.GPU),
    numerics="rounding",
)
