"""bf16 autocast: matrix products and attention in bfloat16, weights and optimizer in float32.

What: runs the forward pass under torch.autocast; reductions and the loss stay in float32.
Helps when: matrix products take most of the step and the processor has bf16 matrix units (CUDA
    capability 8.0 and up, CPUs with AVX512_BF16 or AMX).
Does not help when: the step is bound by kernel launches or by waiting for data.
Numbers: rounding. bf16 has float32's range, so no loss scaling; it keeps 8 bits of mantissa.
Measured: 0.59 of the float32 step time, quartiles 0.59-0.60 (n 12 pairs of steps; char-lm's
    default model, micro batch 12, 1 thread of an AMD EPYC with AVX512_BF16, torch 2.13;
    benchmarks/techniques.py).
Source: https://docs.pytorch.org/docs/stable/amp.html
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

ID = "autocast-bf16"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Ask the hardware; `is_bf16_supported()` says yes on a T4, by emulation, 4x slower."""
    del plan
    return hardware.why_no_bf16()


def apply(session: Subject) -> int:
    """Wrap the forward pass."""
    import torch

    inner, device = session.forward, session.device.type

    def in_bf16(tensors: Mapping[str, Tensor]) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            return inner(tensors)

    session.forward = in_bf16
    session.wrapped.append(ID)
    return 1


def read_back(session: Subject) -> str | None:
    """Look for the wrapper around the forward pass."""
    return f"forward: {session.describe()}" if ID in session.wrapped else None


TECHNIQUE = Technique(
    id=ID,
    title="bf16 autocast",
    page=__doc__ or "",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=3e-3,  # measured 2.4e-4
    cosine=1 - 3e-4,  # measured 1 - 1.8e-5
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing="the forward pass cannot be wrapped",
    excludes=frozenset({"autocast-fp16"}),
)
