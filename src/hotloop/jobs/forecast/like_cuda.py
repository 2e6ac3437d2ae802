"""The memory path of a CUDA device for operators whose path on a CPU is another one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from hotloop.models.attention.documents import for_each_head

__all__ = ["LikeCuda"]


class LikeCuda(TorchFunctionMode):
    """Lets fake CPU tensors take the memory path that a CUDA device takes.

    The CPU has no fused attention with dropout, and saves a float mask for dropout itself. CUDA
    saves no attention matrix, nothing inside of a fused norm, and one byte per element for dropout.
    Where heads share keys and FlashAttention cannot run, keys are repeated (models/attention). Only
    sizes are read here.
    """

    def __init__(self, *, flash: bool) -> None:
        super().__init__()
        self._flash = flash

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is scaled_dot_product_attention:
            kwargs.pop("dropout_p", None)
            args = args[:4] + (0.0,) * len(args[4:5]) + args[5:]  # dropout_p is the fifth
            mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
            if kwargs.get("enable_gqa") and not (mask is None and self._flash):
                kwargs["enable_gqa"] = False
                args = (args[0], *for_each_head(*args[:3]), *args[3:])
        elif func is torch.dropout:
            return torch.native_dropout(*args, **kwargs)[0]
        elif func is rms_norm:
            return _FusedNorm.apply(args[0], kwargs["weight"])  # type: ignore[no-untyped-call]
        return func(*args, **kwargs)


class _FusedNorm(torch.autograd.Function):
    """The sizes of a norm in a kernel of its own, which the CPU has not: no intermediate result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Keep the input, and one number of each row."""
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1]))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return gradients of these sizes."""
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight) if ctx.needs_input_grad[1] else None
