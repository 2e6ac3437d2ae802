"""The optimizer updates tensor by tensor, operation by operation, where one kernel could do it.

Looks at: the time of the update, clipping taken out, and the flags `fused` and `foreach`.
Says so when: the update takes 5 % of the wall time and the optimizer has a fused form that is off.
Stays silent when: it is fused, or has no fused form (then foreach is on by default on a GPU).
Remedy: fused=True.
Numbers: rounding; parameters differ by 9e-8 after two epochs (CPU, float32). foreach is bitwise.
Seen: examples/slow/slow_getitem, where it is a note beside the cause.
Source: https://docs.pytorch.org/docs/stable/optim.html (fused > foreach > for-loop); hotloop:
    AdamW fused took 0.14 to 0.27 of the default's CPU time (three sizes of 8 to 16 tensors, medians
    of 60 steps each, torch 2.13, 1 thread of an AMD EPYC).
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, option
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

LEAST = 0.05
GOES = 0.86  # largest share of the update's time that fusing saves: see Source
FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})  # torch 2.13: those with `fused`


def judge(case: Case) -> Finding | None:
    """Read the row, and look at the groups of each optimizer."""
    slow = [
        optimizer
        for optimizer in case.optimizers
        if optimizer.steps
        and optimizer.name in FUSED
        and optimizer.groups
        and not any(group.fused for group in optimizer.groups)
    ]
    clipping = [s for s in case.stacks if s.row == "optimizer" and s.passes("clip_grad")]
    seconds = case.row("optimizer") - sum(stack.seconds for stack in clipping)
    if not slow:
        return None
    worst = max(slow, key=lambda optimizer: sum(g.tensors for g in optimizer.groups))
    technique = "fused-adamw" if worst.name in ("Adam", "AdamW") else None
    remedies = [Remedy(text=f"{worst.name}(..., fused=True)", technique=technique)]
    if technique:
        run = option("one kernel updates all weights", technique=technique)
        remedies.insert(0, run)
    return costing(
        case,
        GOES * seconds,
        least=LEAST,
        claim=f"{worst.name} takes {case.part(seconds):.0%} of the time and is not fused",
        places=[optimizer.place for optimizer in slow if optimizer.place],
        evidence={"tensors": str(sum(group.tensors for group in worst.groups))},
        remedies=remedies,
    )


RULE = Rule(
    title="The optimizer updates tensor by tensor",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    numerics="rounding",
    experiment="fused optimizer",
    only_measured=True,
)
