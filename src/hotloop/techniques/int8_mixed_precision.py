"""int8 mixed-precision training: matrix products of large linear layers in int8, by torchao.

What: replaces the product of linear layers by torchao's: weights stay as they are, and operands of
    the three products of a step are quantised to int8 by rows as they are needed.
Helps when: a model of a billion parameters or more is trained whole, with compile, on a GPU of
    capability 8.0 or newer: +70 % on an RTX 4090 and +40 % on an A100 were published for 1 B.
Does not help when: layers are small, since quantising costs more than the product saves; frozen
    layers with adapters are left alone.
Numbers: training; operands have 8 bits. Opt in: neither a recipe nor tune takes it by itself, and
    `hotloop tune --allow training` may. A prototype of torchao.
Measured: not measured here: needs a CUDA GPU.
Source: https://github.com/pytorch/ao/tree/main/torchao/prototype/quantized_training (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import HostKind, Numerics, Stage, Technique
from hotloop.techniques.fp8 import WIDE, why_no_torchao, why_not_compiled, wide_linears

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE"]

ID = "int8-mixed-precision"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Ask the hardware, the plan and torchao."""
    uncompiled = why_not_compiled(plan, "quantising to int8")
    return hardware.why_no_int8() or uncompiled or why_no_torchao()


def apply(session: Session) -> int:
    """Replace the matrix products of the layers; return the number of layers."""
    from torchao.prototype.quantized_training import int8_mixed_precision_training
    from torchao.quantization import quantize_

    names = set(wide_linears(session.model))
    # With module_swap weights stay plain tensors, as checkpoints want them.
    config = int8_mixed_precision_training(module_swap=True)
    quantize_(session.model, config, filter_fn=lambda _, name: name in names)
    return len(names)


def read_back(session: Session) -> str | None:
    """Count the layers of torchao's int8 class."""
    kinds = [type(module).__name__ for module in session.model.modules()]
    count = kinds.count("Int8MixedPrecisionTrainingLinear")
    return f"{count} linear layers multiply in int8" if count else None


TECHNIQUE = Technique(
    id=ID,
    title="int8 mixed-precision training",
    stage=Stage.MODEL,
    numerics=Numerics.TRAINING,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing=f"no linear layer that is trained has {WIDE} inputs and outputs, multiples of 16",
    excludes=frozenset({"fp8", "autocast-fp16"}),
    hosts=frozenset({HostKind.ENGINE}),
)
