"""The loop makes a tensor on the host and then sends it to the GPU, at each step.

Looks at: torch.tensor, zeros, arange and their like followed by .to(...) or .cuda(), also after
    other methods, in the code of the training and the evaluation loops, and the time the main
    thread spent there.
Says so when: there is such a line and it takes 2 % of the wall time.
Stays silent when: the tensor is made with device=..., before the loop, or on the CPU.
Remedy: make it on the GPU, torch.zeros(..., device=device), or once before the loop.
Numbers: bitwise the same, unless it is filled with random numbers: the GPU draws others.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html ("Create tensors
    directly on the target device")
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, seconds_at
from hotloop.rules.support.device_moves import tensors_sent

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Sum the time of lines that create a tensor and send it to the GPU."""
    sites = tensors_sent(case)
    seconds = seconds_at(case, sites)
    return costing(
        case,
        seconds,
        claim=f"tensors made on the host and sent to the GPU take {case.part(seconds):.0%} of "
        "the time",
        places=[place.place for place in sites],
        remedies=[
            code_edit("make them on the GPU: torch.zeros(..., device=device)"),
            code_edit("make what does not change once, before the loop"),
        ],
    )


RULE = Rule(
    title="A tensor is made on the host and sent to the GPU at every step",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS, Needs.CODE, Needs.GPU),
    weight=3,
    numerics="bitwise",
    by_host=True,
)
