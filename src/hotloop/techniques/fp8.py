"""fp8 training: matrix products of large linear layers in float8, by torchao.

What: replaces linear layers by torchao's Float8Linear: weights stay as they are, and operands of
    the three products of a step are scaled to float8 as they are needed: a tensor at a time
    (scaling=tensorwise, the fastest), a row at a time, or so but for the gradient of the weight,
    which is computed in 16 bits (rowwise_with_gw_hp, the most accurate).
Helps when: a model of a billion parameters or more is trained whole, with compile, on a GPU of
    capability 8.9 or newer (RTX 4090, H100).
Does not help when: layers are small, since scaling costs more than the product saves; frozen layers
    with adapters are left alone.
Numbers: training; products have 3 or 2 bits of mantissa. Opt in: neither a recipe nor tune takes it
    by itself, and `hotloop tune --allow training` may.
Measured: not measured here: needs a CUDA GPU.
Source: https://docs.pytorch.org/ao/stable/generated/torchao.float8.convert_to_float8_training.html
    and https://docs.pytorch.org/ao/main/api_reference/generated/torchao.float8.Float8LinearRecipeName.html
    (2026-11)
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE", "WIDE", "why_no_torchao", "why_not_compiled", "wide_linears"]

ID = "fp8"
_MULTIPLE = 16  # both sides of a weight must be multiples: the GPUs' float8 products require it
WIDE = 1024  # least size of both sides; torchao 0.18 skips up to 1024 outputs on an H100


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Ask the hardware, the plan and torchao."""
    return hardware.why_no_fp8() or why_not_compiled(plan, "scaling to float8") or why_no_torchao()


def why_not_compiled(plan: Plan, what: str) -> str | None:
    """Return why a plan without compile gains nothing, or None if it has compile."""
    if plan.choice("compile") is not None:
        return None
    return f"{what} is slower than what it saves unless compile fuses it: take compile as well"


def why_no_torchao() -> str | None:
    """Return a sentence on what to install, or None if torchao is installed."""
    is_there = importlib.util.find_spec("torchao") is not None
    return None if is_there else "torchao is missing: pip install 'hotloop[torchao]'"


def wide_linears(model: Any) -> list[str]:
    """Return the names of the linear layers that are trained and large enough for float8."""
    from torch import nn

    from hotloop.models.adapters.in_16_bits import LowLinear

    return [
        name
        for name, module in model.named_modules()
        if type(module) in (nn.Linear, LowLinear)
        and module.weight.requires_grad
        and min(module.weight.shape) >= WIDE
        and not any(size % _MULTIPLE for size in module.weight.shape)
    ]


def apply(session: Session, *, scaling: str = "tensorwise") -> int:
    """Replace the layers; return their number."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    names = set(wide_linears(session.model))
    convert_to_float8_training(
        session.model,
        config=Float8LinearConfig.from_recipe_name(scaling),
        module_filter_fn=lambda _, name: name in names,
    )
    session.facts[ID] = scaling
    return len(names)


def read_back(session: Session) -> str | None:
    """Count the layers of torchao's float8 class."""
    count = sum(type(module).__name__ == "Float8Linear" for module in session.model.modules())
    how = session.facts.get(ID)
    return f"{count} linear layers multiply in float8, scaled {how}" if count else None


TECHNIQUE = Technique(
    id=ID,
    title="fp8 training",
    stage=Stage.MODEL,
    numerics=Numerics.TRAINING,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing=f"no linear layer that is trained has {WIDE} inputs and outputs, multiples of 16",
    choices={"scaling": ("tensorwise", "rowwise", "rowwise_with_gw_hp")},
    excludes=frozenset({"int8-mixed-precision", "autocast-fp16"}),
    hosts=frozenset({HostKind.ENGINE}),
)
