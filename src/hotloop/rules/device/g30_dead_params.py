"""The optimizer holds parameters that never get a gradient.

Looks at: parameters in its groups that are frozen, or required a gradient and never got one.
Says so when: they are 5 % of its numbers. It is a note: P2 says it where it may be an error.
Stays silent when: all are trained.
Remedy: give it only [p for p in model.parameters() if p.requires_grad].
Numbers: bitwise the same.
Seen: examples/slow/adapters_never_called.
Source: hotloop
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule

__all__ = ["RULE"]

LEAST = 0.05  # of the numbers


def judge(case: Case) -> Finding | None:
    """Count the parameters that are never trained."""
    for optimizer in case.optimizers:
        total = sum(group.parameters for group in optimizer.groups)
        idle = sum(group.frozen + group.without_gradient for group in optimizer.groups)
        if optimizer.steps and idle and idle >= LEAST * total:
            return Finding(
                claim=f"{idle:,} of the {total:,} numbers that {optimizer.name} holds are never "
                "trained",
                severity="note",
                places=[optimizer.place] if optimizer.place else [],
                remedies=[Remedy(text="[p for p in model.parameters() if p.requires_grad]")],
            )
    return None


RULE = Rule(
    title="The optimizer holds parameters that are never trained",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    numerics="bitwise",
    known="proved",
)
