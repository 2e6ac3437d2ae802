"""The efficient kernel with boundaries of documents as an operator of its own, for torch.compile.

Dims: N positions of a batch as one row, H heads, K head width, S segments.
torch's own operator cannot be compiled: the signature that its gradient has for compilers lacks
`out` (torch/_meta_registrations.py, meta__efficient_attention_backward, torch 2.11 and 2.13).
Schemas: aten/src/ATen/native/native_functions.yaml (torch 2.11, 2026-11). Without dropout.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

__all__ = ["OPERATOR"]

_ROW: Final = 32  # the kernel keeps sums for multiples of so many positions of a segment
_SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor starts, SymInt longest, int mask, float? scale) "
    "-> (Tensor, Tensor)"
)
_OF_GRADIENT = (
    "(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor sums, Tensor starts, "
    "SymInt longest, int mask, float? scale) -> (Tensor, Tensor, Tensor)"
)


def _attend(
    q_1NHK: Tensor,
    k_1NHK: Tensor,
    v_1NHK: Tensor,
    starts: Tensor,
    longest: int,
    mask: int,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """Return the output and the logarithms of the softmax's sums, [S, H, longest, rounded up]."""
    out = torch.ops.aten._efficient_attention_forward(
        *(q_1NHK, k_1NHK, v_1NHK, None, starts, starts, longest, longest, 0.0, mask, True),
        scale=scale,
    )
    return out[0], out[1]


def _attend_fake(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, longest: int, mask: int, scale: float | None
) -> tuple[Tensor, Tensor]:
    del k, mask, scale
    sums = q.new_empty(
        (starts.shape[0] - 1, q.shape[2], (longest + _ROW - 1) // _ROW * _ROW), dtype=torch.float32
    )
    return q.new_empty((*q.shape[:-1], v.shape[-1])), sums


def _gradient(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    sums: Tensor,
    starts: Tensor,
    longest: int,
    mask: int,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    nothing = torch.empty((), dtype=torch.int64)  # the generator's state, for dropout alone
    to_q, to_k, to_v, _ = torch.ops.aten._efficient_attention_backward(
        *(grad.contiguous(), q, k, v, None, out, starts, starts, longest, longest, sums),
        *(0.0, nothing, nothing, mask, False),
        scale=scale,
    )
    return to_q, to_k, to_v


def _gradient_fake(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    del grad
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, starts, ctx.longest, ctx.mask, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output, starts)


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    kept = ctx.saved_tensors
    gradients = _OPERATOR_OF_GRADIENT(grad, *kept, ctx.longest, ctx.mask, ctx.scale)
    return *gradients, None, None, None, None


_OPERATOR_OF_GRADIENT = torch.library.custom_op(
    "hotloop::efficient_attention_gradient", _gradient, mutates_args=(), schema=_OF_GRADIENT
)
_OPERATOR_OF_GRADIENT.register_fake(_gradient_fake)
# (q, k, v [1, N, H, K], starts [S + 1], longest, mask, scale) -> output [1, N, H, K] and sums.
OPERATOR: Final = torch.library.custom_op(
    "hotloop::efficient_attention", _attend, mutates_args=(), schema=_SCHEMA
)
OPERATOR.register_fake(_attend_fake)
OPERATOR.register_autograd(_backward, setup_context=_keep)
