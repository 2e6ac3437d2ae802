"""Fused AdamW: the whole optimizer step in one kernel per dtype instead of one per operation.

What: sets `fused` in every parameter group of an AdamW or Adam.
Helps when: the update is more than a few percent of the step: small models, small batches.
Does not help when: the step is bound by matrix products; it is then free all the same.
Numbers: rounding; the same formula in another order of operations (parameters differ by 1e-7).
Measured: cannot be told, quartiles 0.99-1.01 of the step time (n 12 pairs of steps; char-lm's
    default model, micro batch 12, 1 thread of an AMD EPYC, torch 2.13;
    benchmarks/techniques.py): the update is too small a share of that step.
Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session import Subject

__all__ = ["TECHNIQUE"]


def apply(session: Subject) -> int:
    """Turn the flag on in every group that has it off."""
    from torch.optim import Adam

    if not isinstance(session.optimizer, Adam):  # AdamW is an Adam since torch 2.7
        return 0
    session.optimizer._step_supports_amp_scaling = True  # as Adam(fused=True) sets it for itself
    off = [group for group in session.optimizer.param_groups if not group["fused"]]
    for group in off:
        group.update(fused=True, foreach=False)
    return len(off)


def read_back(session: Subject) -> str | None:
    """Read the flags of the parameter groups."""
    groups = session.optimizer.param_groups if session.optimizer else []
    fused = sum(bool(group.get("fused")) for group in groups)
    return f"fused=True in {fused} of {len(groups)} parameter groups" if fused else None


TECHNIQUE = Technique(
    id="fused-adamw",
    title="Fused AdamW",
    page=__doc__ or "",
    stage=Stage.OPTIMIZER,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # measured 1.1e-7
    cosine=1 - 1e-10,  # measured 1 - 8e-14
    apply=apply,
    read_back=read_back,
    nothing="the optimizer is not Adam or AdamW, or is fused already",
)
