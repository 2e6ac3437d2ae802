"""RMS norms in one kernel forward and one or two backward.

What: replaces the model's RMS norms, which transformers writes out, by torch's fused one, where a
    copy of the module with random numbers has the output of the formula.
Helps when: the host limits a model of the kind of Llama, Qwen or Gemma on a GPU: a norm written out
    is 17 to 24 kernels, forward and backward, fused it is 2 to 5. Where its weight is trained, less
    is kept for the backward pass.
Does not help when: the model has layer norms (BERT), is compiled (the compiler fuses them itself)
    or runs on a CPU, for which torch writes the norm out.
Numbers: rounding. Where the input has 16 bits, it is not rounded to them again before the weight.
Measured: a block of Qwen3 with LoRA launches 133 kernels a micro batch in place of 199 (torch
    2.11 on a simulated GPU, docs/nullcard.md); speed on a GPU: not measured.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import many
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique, only_on

if TYPE_CHECKING:
    from torch import nn

    from hotloop.session.session import Session

__all__ = ["TECHNIQUE"]


def on_model(model: nn.Module) -> int:
    """Replace the norms; return their number."""
    from hotloop.models.fused_norms import fuse

    return len(fuse(model))


def apply(session: Session) -> int:
    """Replace the norms of the session's model."""
    return on_model(session.model)


def read_back(session: Session) -> str | None:
    """Count the fused norms."""
    from hotloop.models.fused_norms import FusedNorm

    count = sum(isinstance(module, FusedNorm) for module in session.model.modules())
    return f"{many(count, 'RMS norm')} in a fused kernel" if count else None


TECHNIQUE = Technique(
    id="fused-rms-norm",
    title="Fused RMS norms",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=1e-3,  # measured 8.1e-5
    cosine=1 - 3e-3,  # measured 1 - 2.3e-4
    blocked=only_on("cuda", "torch fuses RMS norms on CUDA GPUs"),
    apply=apply,
    read_back=read_back,
    nothing="the model has no RMS norm that is written out",
    on_model=on_model,
    hosts=frozenset({HostKind.ENGINE}),
)
