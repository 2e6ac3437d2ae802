"""Gradients are never cleared: each update adds those of all steps before.

Looks at: the gradients of a few weights right after an update, at the beginning of the backward
    pass that the next update of the same optimizer follows, and after that update (sampled steps).
Says so when: each of at least 4 such passes finds them as the update left them, and adds to the
    same tensors in place.
Stays silent when: they are cleared or set at least once, by zero_grad or by hand, as after
    autograd.grad; or micro batches are accumulated, whose last pass rightly finds gradients.
Remedy: optimizer.zero_grad() before the backward pass.
Numbers: training: the update is that of a sum over all steps, a momentum without decay.
Seen: examples/planted/never_cleared.py; a public training script (benchmarks/field,
    neural_processes_flow), whose norms before each pass were 0, 0.42, 0.75, 0.98, 1.0.
Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]

FEWEST = 4  # updates: fewer may lie between two that clear


def judge(case: Case) -> Finding | None:
    """Say that no look found cleared gradients."""
    if case.steps.kept_gradients != 1.0 or case.steps.gradient_looks < FEWEST:
        return None
    place = case.steps.backward_place
    return Finding(
        claim="gradients are never cleared: each update adds those of all steps before it",
        severity="critical",
        places=[place] if place else [],
        evidence={"updates that were looked at": f"{case.steps.gradient_looks}"},
        remedies=[code_edit("optimizer.zero_grad() before the backward pass of each step")],
    )


RULE = Rule(
    title="Gradients that are never cleared",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
