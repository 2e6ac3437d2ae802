"""fp16 autocast with a loss scaler: for cards whose matrix units know float16 but not bfloat16.

What: runs the forward pass under torch.autocast in float16 and scales the loss, so that small
    gradients do not vanish; gradients are unscaled before they are clipped.
Helps when: the card is older than capability 8.0 (T4, V100, RTX 20).
Does not help when: bf16 is there: it needs no scaler and cannot overflow. Refused on CPUs.
Numbers: rounding, 11 bits of mantissa; a step whose gradients overflow is skipped and said.
    A scale that falls below 1 is an error (the run has diverged), not a slow-down.
Measured: not measured here: needs a CUDA card.
Source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session import Subject

__all__ = ["TECHNIQUE"]

ID = "autocast-fp16"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Ask the hardware: float16 on a CPU is 40-100 times slower than float32."""
    del plan
    return hardware.why_no_fp16()


def apply(session: Subject) -> int:
    """Wrap the forward pass and give the session a scaler."""
    import torch

    inner, device = session.forward, session.device.type

    def in_fp16(tensors: Mapping[str, Tensor]) -> Tensor:
        with torch.autocast(device, torch.float16):
            return inner(tensors)

    session.forward = in_fp16
    session.scaler = torch.amp.GradScaler(device)
    session.wrapped.append(ID)
    return 2


def read_back(session: Subject) -> str | None:
    """Look for the wrapper and the scaler."""
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
    excludes=frozenset({"autocast-bf16"}),
)
