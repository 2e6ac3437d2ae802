"""fp16 autocast with a loss scaler: for GPUs whose matrix units know float16 but not bfloat16.

What: runs the forward pass under torch.autocast in float16 and scales the loss, so that small
    gradients do not vanish; gradients are unscaled before they are clipped. In a script the loss
    is scaled on its way into backward(), and the gradients are unscaled before that returns: the
    script never sees them scaled.
Helps when: the GPU is older than capability 8.0 (T4, V100, RTX 20).
Does not help when: bf16 is there: it needs no scaler and cannot overflow. Refused on CPUs.
Numbers: rounding, 11 bits of mantissa; a step whose gradients overflow is skipped and said.
    A scale that falls below 1 is an error (the run has diverged), not a slow-down; in a script it
    stays at 1, and the report counts the steps that were left out.
Measured: not measured here: needs a CUDA GPU.
Source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.process.internal_frames import hide
from hotloop.session.session import ScriptSession
from hotloop.techniques.autocast_bf16 import run_under_autocast
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE"]

ID = "autocast-fp16"


def apply(session: TechniqueTarget) -> int:
    """Wrap the forward pass and give the session a scaler."""
    if not run_under_autocast(session, ID, "float16"):
        return 0
    if isinstance(session, ScriptSession):
        from hotloop.techniques.on_scripts.loss_scale import LossScale

        session.scale = session.scale or LossScale(session.troubles[ID])
        session.scale.watch(session.model.parameters())
    else:
        import torch

        session.scaler = torch.amp.GradScaler(session.device.type)
    return 2


def read_back(session: TechniqueTarget) -> str | None:
    """Look for the wrapper and the scaler."""
    if ID not in session.wrapped:
        return None
    if isinstance(session, ScriptSession) and session.scale:
        return f"forward: {session.describe()}; loss scale {session.scale.scale:.0f}"
    if session.scaler is None or not session.scaler.is_enabled():
        return None
    return f"forward: {session.describe()}; loss scale {session.scaler.get_scale():.0f}"


TECHNIQUE = Technique(
    id=ID,
    title="fp16 autocast with loss scaling",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=1e-2,  # measured 3.5e-3 where the scaler skipped a step, else 2.2e-5
    cosine=1 - 3e-6,  # measured 1 - 2.9e-7
    # On a CPU, float16 is 40-100 times slower than float32.
    blocked=lambda hardware, plan: hardware.why_no_fp16(),
    apply=apply,
    read_back=read_back,
    nothing="the forward pass cannot be wrapped",
    excludes=frozenset({"autocast-bf16", "deepspeed", "fp8", "fsdp2", "int8-mixed-precision"}),
)


hide(globals())
