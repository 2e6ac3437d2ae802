"""fp16 autocast with a loss scaler: for cards whose matrix units know float16 but not bfloat16.

What: runs the forward pass under torch.autocast in float16 and scales the loss, so that small
    gradients do not vanish; gradients are unscaled before they are clipped. In a script the loss
    is scaled on its way into backward(), and the gradients are unscaled before that returns: the
    script never sees them scaled.
Helps when: the card is older than capability 8.0 (T4, V100, RTX 20).
Does not help when: bf16 is there: it needs no scaler and cannot overflow. Refused on CPUs.
Numbers: rounding, 11 bits of mantissa; a step whose gradients overflow is skipped and said.
    A scale that falls below 1 is an error (the run has diverged), not a slow-down; in a script it
    stays at 1, and the report counts the steps that were left out.
Measured: not measured here: needs a CUDA card.
Source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide
from hotloop.session.session import ScriptSession
from hotloop.techniques.autocast_bf16 import why_not_autocast
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE"]

ID = "autocast-fp16"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Ask the hardware: float16 on a CPU is 40-100 times slower than float32."""
    del plan
    return hardware.why_no_fp16()


def apply(session: TechniqueTarget) -> int:
    """Wrap the forward pass and give the session a scaler."""
    import torch

    from hotloop.techniques.on_scripts.loss_scale import LossScale
    from hotloop.techniques.on_scripts.nested_tensors import in_float32

    inner, device = session.forward, session.device.type

    def in_fp16(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, torch.float16):
            return inner(*args, **kwargs)

    def with_float32_outputs(*args: Any, **kwargs: Any) -> Any:
        return in_float32(in_fp16(*args, **kwargs))

    if isinstance(session, ScriptSession):
        session.refused = why_not_autocast(session)
        if session.refused is not None:
            return 0
        session.forward = with_float32_outputs
        session.scale = session.scale or LossScale(session.troubles[ID])
        session.scale.watch(session.model.parameters())
    else:
        session.forward = in_fp16
        session.scaler = torch.amp.GradScaler(device)
    session.wrapped.append(ID)
    return 2


def read_back(session: TechniqueTarget) -> str | None:
    """Look for the wrapper and the scaler."""
    if ID in session.wrapped and isinstance(session, ScriptSession) and session.scale:
        return f"forward: {session.describe()}; loss scale {session.scale.scale:.0f}"
    if ID not in session.wrapped or session.scaler is None or not session.scaler.is_enabled():
        return None
    return f"forward: {session.describe()}; loss scale {session.scaler.get_scale():.0f}"


TECHNIQUE = Technique(
    id=ID,
    title="fp16 autocast with loss scaling",
    page=__doc__ or "",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=1e-2,  # measured 3.5e-3 where the scaler skipped a step, else 2.2e-5
    cosine=1 - 3e-6,  # measured 1 - 2.9e-7
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing="the forward pass cannot be wrapped",
    excludes=frozenset({"autocast-bf16", "deepspeed", "fp8", "fsdp2", "int8-mixed-precision"}),
)


hide(globals())
