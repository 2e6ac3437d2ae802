"""Channels last: images and the weights of 2-D convolutions lie in memory channel by channel.

What: puts weights of 2-D convolutions into torch.channels_last in place, and 4-D float inputs as
    well; what lies between follows them.
Helps when: convolutions take most of the step: tensor cores read this layout, and so does oneDNN
    on CPUs; else each convolution may turn its input round and back.
Does not help when: there is no 2-D convolution, or operators without a channels_last kernel lie
    between the convolutions.
Numbers: rounding; other kernels sum in another order. Element-wise dropout between convolutions
    draws other masks of the same distribution, for it draws them in the order of memory.
Measured: 0.92 of the step time in float32, quartiles 0.89-0.96 (n 12 pairs of steps of a net of six
    convolutions, 1 thread of an AMD EPYC with AVX2, torch 2.13; benchmarks/techniques.py); the
    losses of 10 steps moved by 2.1e-7 at most (3 seeds; benchmarks/rounding.py).
Source: https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from torch import Tensor

    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE"]

ID = "channels-last"


def _weights(session: TechniqueTarget) -> list[Tensor]:
    from torch import nn

    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    return [m.weight for m in session.model.modules() if isinstance(m, kinds)]


def apply(session: TechniqueTarget) -> int:
    """Convert the weights and wrap the forward pass; return the number of weights."""
    import torch

    from hotloop.techniques.on_scripts.nested_tensors import mapped

    inner, weights = session.forward, _weights(session)
    if not weights or ID in session.wrapped:
        return 0

    def turned(tensor: Tensor) -> Tensor:
        image = tensor.dim() == 4 and tensor.is_floating_point()
        return tensor.contiguous(memory_format=torch.channels_last) if image else tensor

    def in_channels_last(*args: Any, **kwargs: Any) -> Any:
        return inner(*mapped(args, turned), **mapped(kwargs, turned))

    def back_out() -> None:
        for weight in weights:
            weight.data = weight.data.contiguous()
        session.forward = inner
        session.wrapped.remove(ID)

    for weight in weights:
        weight.data = turned(weight.data)
    session.forward = in_channels_last
    session.wrapped.append(ID)
    session.undo[ID] = back_out
    return len(weights)


def read_back(session: TechniqueTarget) -> str | None:
    """Count the weights in channels_last format if the forward pass is wrapped."""
    import torch

    if ID not in session.wrapped:
        return None
    weights = _weights(session)
    so = sum(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
    return f"{so} of {len(weights)} weights in channels_last" if so else None


TECHNIQUE = Technique(
    id=ID,
    title="Channels last",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # measured 2.1e-7
    cosine=1 - 3e-10,  # measured 1 - 1.2e-11
    apply=apply,
    read_back=read_back,
    nothing="the model has no 2-D convolution",
)


hide(globals())
