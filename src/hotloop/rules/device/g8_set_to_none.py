"""Gradients are filled with zeros at each step, and added to, where they could be dropped.

Looks at: zero_grad(set_to_none=False), and the time spent in it.
Says so when: it takes 1 % of the wall time (below 2 % a note).
Stays silent when: gradients are set to None, the default since torch 2.0, or it costs nothing.
Remedy: zero_grad() without the argument.
Numbers: bitwise the same where each parameter gets a gradient at each step; else training: a
    parameter without a gradient is left out of the step, so momentum and weight decay skip it
    (parameters differed by 6e-2).
Seen: examples/planted/conv_habits.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

LEAST = 0.01


def judge(case: Case) -> Finding | None:
    """Time zero_grad where it writes zeros."""
    zeroed = [o for o in case.optimizers if o.zeroed_to_none is False]
    stacks = [stack for stack in case.stacks if stack.passes(":zero_grad", ".zero_grad")]
    seconds = sum(stack.seconds for stack in stacks)
    if not zeroed or not stacks:
        return None
    without = sum(group.without_gradient for o in zeroed for group in o.groups)
    same = "training changes: some parameters get no gradient" if without else "bitwise the same"
    place = max(stacks, key=lambda stack: stack.seconds).place
    return costing(
        case,
        seconds,
        least=LEAST,
        claim=f"filling gradients with zeros takes {case.part(seconds):.1%} of the time",
        places=[place] if place else [],
        evidence={"without it": same},
        remedies=[Remedy(text="zero_grad() without set_to_none=False")],
    )


RULE = Rule(
    title="Gradients are filled with zeros instead of dropped",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS, Needs.OPTIMIZER),
    numerics="training",
    only_measured=True,
)
