"""Frozen weights are stored in 16 bits, in the dtype of autocast's products.

What: loads the matrices that a run does not train in bfloat16 (float16 where autocast uses that),
    not in float32. What is trained, norms and biases stay float32. An embedding is stored in 16
    bits where its file has it so.
Helps when: adapters are trained on a pretrained model under autocast: a frozen weight takes 2 bytes
    instead of 6 (its float32 and the copy that autocast makes in each micro batch for forward and
    backward), and that cast is not made.
Does not help when: the whole model is trained, weights are packed in 4 bits, or products are in
    float32.
Numbers: rounding. Products are the same, bit for bit. DoRA takes the lengths of the stored rows and
    scales them, which rounds a second time if the files are float32 (1 in 512 of a weight at most).
Measured: Qwen3-0.6B's sizes, LoRA, 4 rows of 1,024 tokens: 8.46 GiB reserved in place of 9.85; a
    model of 2 layers launches 334 kernels in place of 359 (torch 2.11 on a simulated GPU,
    docs/nullcard.md); speed on a GPU: not measured.
Source: PEFT and TRL load the frozen model in bfloat16,
    https://huggingface.co/docs/trl/peft_integration (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, many
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from collections.abc import Collection

    import torch
    from torch import Tensor

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["ID", "TECHNIQUE", "dtype_of", "stored"]

ID = "frozen-16bit"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse plans without autocast, whose products are in float32."""
    if plan.choice("autocast-bf16") is not None and hardware.why_no_bf16() is None:
        return None
    if plan.choice("autocast-fp16") is not None and hardware.why_no_fp16() is None:
        return None
    return "products are in float32 here: weights in 16 bits would lose digits"


def dtype_of(plan: Plan) -> torch.dtype:
    """Return the dtype of a plan's products, in which it stores frozen matrices."""
    import torch

    return torch.bfloat16 if plan.choice("autocast-fp16") is None else torch.float16


def apply(session: Session) -> int:
    """Count the matrices that were loaded in 16 bits: the job's model is built so."""
    from hotloop.models.adapters.in_16_bits import lowered

    return len(lowered(session.model))


def read_back(session: Session) -> str | None:
    """Read the dtypes of the model's frozen matrices."""
    from hotloop.models.adapters.in_16_bits import lowered

    return stored(lowered(session.model).values(), "frozen weight")


def stored(tensors: Collection[Tensor], noun: str) -> str | None:
    """Return the number, dtypes and size of tensors in words; None if there are none."""
    if not tensors:
        return None
    dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})
    size = bytes_(sum(tensor.nbytes for tensor in tensors))
    return f"{many(len(tensors), noun)} in {' and '.join(dtypes)}, {size}"


TECHNIQUE = Technique(
    id=ID,
    title="Frozen weights in 16 bits",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=2e-3,  # measured 1.9e-4
    cosine=1 - 7e-4,  # measured 1 - 6.3e-5
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing="no matrix of the model is frozen and unpacked",
    hosts=frozenset({HostKind.ENGINE}),
)
