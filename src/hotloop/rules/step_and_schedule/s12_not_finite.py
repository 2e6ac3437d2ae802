"""The loss becomes NaN or infinite.

Looks at: the losses at backward: every step for the first that is not finite, and the samples.
Says so when: one is NaN or infinite. Before a run: a first step cannot be made, because its loss or
    gradients are not finite.
Stays silent when: all are finite. A step that a GradScaler skips is no such step: there gradients
    overflow, not the loss.
Remedy: find the step: learning rate, log or division of 0, an all-masked row, a bad sample.
Numbers: the run changes: from that step on most weights are NaN.
Seen: examples/planted/diverging.py.
Source: hotloop, from the five projects (a Trainer logs `loss: 0` and exits 0).
"""

import math

from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Name the first step whose loss is not finite."""
    bad = [(step, value) for step, value in case.steps.losses if not math.isfinite(value)]
    first = case.steps.nonfinite
    if first is None and not bad:
        return None
    first = bad[0][0] if first is None else first
    last = [value for step, value in case.steps.losses if step < first and math.isfinite(value)]
    later = [step for step, _ in case.steps.losses if step >= first]
    return Finding(
        claim=f"the loss is not finite from step {first} of {case.steps.count} on"
        if len(bad) == len(later)
        else f"the loss is not finite at step {first} of {case.steps.count}",
        severity="critical",
        places=[optimizer.place for optimizer in case.optimizers if optimizer.place],
        evidence={
            "sampled losses": f"{len(bad)} of {len(case.steps.losses)} are not finite",
            "the last finite one before": f"{last[-1]:.6g}" if last else "none",
        },
        remedies=[
            code_edit(
                "torch.autograd.set_detect_anomaly(True) for the steps before it names the "
                "operation; then the learning rate, a log or division of 0, an all-masked row "
                "(hotloop explain unstable-loss)"
            ),
            code_edit("stop the run when the loss is not finite, before weights are saved"),
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    problem = None if planned.settings is None else planned.settings.problem
    if problem is None:
        return None
    return Finding(
        claim=f"the run ends in its first steps: {problem}",
        severity="critical",
        remedies=[
            Remedy(text="lower training.learning_rate, or lengthen training.warmup_steps"),
            Remedy(text="set training.gradient_clip (hotloop explain unstable-loss)"),
        ],
    )


RULE = Rule(
    title="NaN or infinite loss",
    judge=judge,
    needs=(Needs.STEPS,),
    before_run=_before_run,
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
