"""TF32: float32 matrix products on the tensor cores, with 10 bits of mantissa.

What: sets torch's float32 matmul precision to "high". A script that reads or sets a switch of
    float32 precision finds all of them as without us from then on.
Helps when: matrix products run in float32 on a GPU of capability 8.0 and up.
Does not help when: they run under bf16 or fp16 autocast: there is hardly a float32 product left.
    The "8x" of the launch slides is a ratio of peaks, not of training steps.
Numbers: rounding; inputs of products keep 10 bits of mantissa, sums stay float32.
Measured: 2.30 times the tokens/s of float32 on an H200 (char-lm, preset h100, n 6 intervals each;
    results/gpu-nvidia-h200.json, torch 2.11).
Source: https://docs.pytorch.org/docs/stable/notes/cuda.html (TF32 on Ampere and later; 2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE"]

ID = "tf32"
_TO = "high"


def apply(session: TechniqueTarget) -> int:
    """Set the process's precision switch; return 1 if it changed, else 0."""
    from hotloop.techniques.on_scripts.float32_switches import turn

    return turn(session, ID, _TO)


def read_back(session: TechniqueTarget) -> str | None:
    """Read torch's precision switch."""
    from hotloop.techniques.on_scripts.float32_switches import in_effect

    return f"float32 matmul precision {_TO}" if in_effect(session, ID, _TO) else None


TECHNIQUE = Technique(
    id=ID,
    title="TF32 matrix products",
    stage=Stage.PROCESS,
    numerics=Numerics.ROUNDING,
    tolerance=3e-4,  # emulated 2.7e-5
    cosine=1 - 3e-6,  # emulated 1 - 2.5e-7
    blocked=lambda hardware, plan: hardware.why_no_tf32(),
    apply=apply,
    read_back=read_back,
    nothing="the switch is on already",
    excludes=frozenset({"matmul-onednn"}),
)
