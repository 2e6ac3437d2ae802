"""Fused AdamW: the whole optimizer step in one kernel per dtype instead of one per operation.

What: sets `fused` in every parameter group of an AdamW or Adam; in a script also of SGD and
    Adagrad, and `foreach` (one kernel per operation, not one per tensor) where torch has no more.
Helps when: the update is more than a few percent of the step: small models, small batches.
Does not help when: the step is bound by matrix products; it is then free all the same.
Numbers: rounding; the same formula in another order of operations (parameters differ by 1e-7).
Measured: cannot be told, quartiles 0.99-1.01 of the step time (n 12 pairs of steps; char-lm's
    default model, micro batch 12, 1 thread of an AMD EPYC, torch 2.13;
    benchmarks/techniques.py): the update is too small a share of that step.
Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html (2026-11)
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE"]


def apply(session: TechniqueTarget) -> int:
    """Turn the flag on in every parameter group that has it off; return their number."""
    from torch.optim import SGD, Adagrad, Adam

    optimizer = session.optimizer
    kinds = (Adam, SGD, Adagrad) if isinstance(session, ScriptSession) else (Adam,)
    if isinstance(session, ScriptSession):
        session.refused = _why_not(optimizer)
        if session.refused is not None:
            return 0
    if isinstance(optimizer, kinds):  # AdamW is an Adam since torch 2.7
        off = [group for group in optimizer.param_groups if not group["fused"]]
        for group in off:
            group.update(fused=True, foreach=False)
        optimizer._step_supports_amp_scaling = True  # as Adam(fused=True) sets it for itself
        _move_steps(optimizer)
        return len(off)
    if optimizer is None or not isinstance(session, ScriptSession):
        return 0
    off = [g for g in optimizer.param_groups if "foreach" in g and not g["foreach"]]
    for group in off:
        group["foreach"] = True
    return len(off)


def _why_not(optimizer: Any) -> str | None:
    """Return why a script's optimizer cannot take the flag, or None."""
    kind = type(optimizer)
    if not inspect.unwrap(kind.step).__module__.startswith("torch.optim"):
        return f"{kind.__name__} makes its step by itself, and reads no flag of torch's"
    tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    if any(t.grad is not None and t.grad.is_sparse for t in tensors):
        return "some gradients are sparse, which no fused kernel takes"
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return "the step itself is to be differentiated"
    if not all(tensor.is_floating_point() for tensor in tensors):
        return "some parameters are complex numbers"
    return None


def _move_steps(optimizer: Any) -> None:
    """Move the step counts of a loaded state to the device where the fused kernel needs them."""
    for tensor, state in optimizer.state.items():
        if getattr(state.get("step"), "device", tensor.device) != tensor.device:
            state["step"] = state["step"].to(tensor.device)


def read_back(session: TechniqueTarget) -> str | None:
    """Read the flags of the parameter groups."""
    groups = session.optimizer.param_groups if session.optimizer else []
    for flag in ("fused", "foreach"):
        if on := sum(bool(group.get(flag)) for group in groups):
            return f"{flag}=True in {on} of {len(groups)} parameter groups"
    return None


TECHNIQUE = Technique(
    id="fused-adamw",
    title="Fused AdamW",
    stage=Stage.OPTIMIZER,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # measured 1.1e-7
    cosine=1 - 1e-10,  # measured 1 - 8e-14
    apply=apply,
    read_back=read_back,
    nothing="the optimizer is not one that can be fused, or is fused already",
    excludes=frozenset({"adamw-8bit"}),
)
