"""TF32: float32 matrix products on the tensor cores, with 10 bits of mantissa.

What: sets torch's float32 matmul precision to "high".
Helps when: matrix products run in float32 on a card of capability 8.0 and up.
Does not help when: they run under bf16 or fp16 autocast: there is hardly a float32 product left.
    The "8x" of the launch slides is a ratio of peaks, not of training steps.
Numbers: rounding; inputs of products keep 10 bits of mantissa, sums stay float32.
Measured: not measured here: needs a CUDA card.
Source: https://docs.pytorch.org/docs/stable/notes/cuda.html (TF32 on Ampere and later; 2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session import Subject

__all__ = ["TECHNIQUE"]


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Ask the hardware."""
    del plan
    return hardware.why_no_tf32()


def apply(session: Subject) -> int:
    """Set the switch of this process."""
    import torch

    before = torch.get_float32_matmul_precision()
    if before == "high":
        return 0
    torch.set_float32_matmul_precision("high")
    session.undo["tf32"] = lambda: torch.set_float32_matmul_precision(before)
    return 1


def read_back(session: Subject) -> str | None:
    """Ask torch."""
    import torch

    del session
    now = torch.get_float32_matmul_precision()
    return f"float32 matmul precision {now}" if now == "high" else None


TECHNIQUE = Technique(
    id="tf32",
    title="TF32 matrix products",
    page=__doc__ or "",
    stage=Stage.PROCESS,
    numerics=Numerics.ROUNDING,
    tolerance=3e-4,  # emulated 2.7e-5
    cosine=1 - 3e-6,  # emulated 1 - 2.5e-7
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing="the switch is on already",
    excludes=frozenset({"matmul-onednn"}),
)
