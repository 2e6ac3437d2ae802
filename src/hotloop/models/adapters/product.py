"""The product of linear layers with adapters, as one node of autograd.

Dims: G layers, N positions, I inputs, O outputs, R rank.
y = f * (x W^T + s h B^T) + bias with h = x A^T, where f [O] is DoRA's and LoRA has none. The whole
is computed with few passes over [N, O] and few kernels: forward 3 products, backward 5, and only
x, h and for DoRA y are kept. Layers that read the same x are one node and share three of these
products. A and B come prepared in the dtype of the products; their gradients are summed and kept in
fp32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from hotloop.models.adapters.nf4_linear import frozen_product, in_dtype, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LOW", "AdapterProduct", "Prepared", "in_float32", "low_copy"]

LOW: Final = frozenset({torch.bfloat16, torch.float16})
_COPY = "_hotloop_low_copy"  # attribute of a tensor


class FrozenLinear(Protocol):
    """The frozen part of a layer with an adapter."""

    weight: Any  # [O, I], plain or packed
    in_features: int
    compute: torch.dtype | None  # of the product with a packed weight


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """An adapter as products take it; it holds until a parameter of the adapter changes."""

    a_GRI: Tensor  # of this layer and others, in the dtype of the products, as b_OR and the bias
    at: int  # which of a_GRI is this layer's
    b_OR: Tensor  # times scaling and factors
    bias_O: Tensor | None
    of_b: float | Tensor  # scaling times factors, [O, 1]: by which B's gradient is multiplied
    factors_O: Tensor | None = None  # m / norm in fp32; None: LoRA
    of_m_O: Tensor | None = None  # 1 / m, and 0 where m is 0


def low_copy(x: Tensor, dtype: torch.dtype, *, tracked: bool = False) -> Tensor:
    """Return x in a dtype; layers that are called with one x share the copy.

    It is an attribute of x, so that it lives no longer. Autograd only sees a `tracked` one.
    """
    source = x if tracked else x.detach()
    if x.dtype == dtype:
        return source
    if x.is_inference():
        return source.to(dtype)
    key = x._version, dtype, tracked and torch.is_grad_enabled()
    known = x.__dict__.get(_COPY)
    if known is None or known[0] != key:
        known = key, source.to(dtype)
        x.__dict__[_COPY] = known
    copy: Tensor = known[1]
    return copy


def in_float32(first: Tensor, second: Tensor, by: float = 1.0) -> Tensor:
    """Return a product times a number in fp32.

    A GPU makes it of 16 bits in one kernel, without a rounding to them.
    Source: https://docs.pytorch.org/docs/2.14/generated/torch.addmm.html (`out_dtype`); there from
    torch 2.8 on (pytorch 150812).
    """
    if first.is_cuda and first.dtype in LOW:
        ignored = torch.empty(1, 1, device=first.device)
        return torch.addmm(ignored, first, second, out_dtype=torch.float32, beta=0, alpha=by)
    product = first @ second
    if product.dtype in LOW:
        product = product.float()
    return product if by == 1.0 else product.mul_(by)


class AdapterProduct(torch.autograd.Function):
    """f * (x W^T + s h B^T) + bias, [N, O], of each layer that reads x.

    Layers that read one x share h = x A^T, the gradient of A and the sum of the gradients of x: one
    product with the A of all of them each, X = their ranks together.
    The frozen product adds to the update in fp32: in bf16, an update below 0.2 % of a rounded
    product would be lost. With factors, the smaller of W and the result is multiplied by them, and
    their gradient is computed from the result itself: nothing else of its size is kept (later code
    must not write into it). Factors stay fp32, because in bf16 they change in steps of 0.4 to
    0.8 %; their product is rounded, so a factor within 0.2 % of 1 has no effect there, as in PEFT.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_NI: Tensor,  # gets the gradient
        low_NI: Tensor,  # the same in the dtype of the products
        h_NX: Tensor | None,  # None: computed here, and its gradient joins that of x
        layers: Sequence[FrozenLinear],
        readies: Sequence[Prepared],
        *trained: Tensor | None,  # A (None if h is given), B and m (None: LoRA) of each layer
    ) -> tuple[Tensor, ...]:
        """Return the outputs; keep x (or h alone, if it was given), h and for DoRA the outputs."""
        kept_NI = low_NI if h_NX is None else None
        h_NX = low_NI @ _a_of_all(readies).t() if h_NX is None else h_NX
        ctx.each = list(zip(layers, readies, _parts(h_NX, readies), strict=True))
        ctx.in_weight = [_in_weight(low_NI, layer, ready) for layer, ready, _ in ctx.each]
        ys_NO = tuple(
            _forward(low_NI, h_NX[:, part], layer, ready, in_weight=in_weight)
            for (layer, ready, part), in_weight in zip(ctx.each, ctx.in_weight, strict=True)
        )
        ctx.dtypes = x_NI.dtype, [b.dtype for b in trained[1::3] if b is not None]
        kept = [y if m is not None else None for y, m in zip(ys_NO, trained[2::3], strict=True)]
        ctx.save_for_backward(kept_NI, h_NX, *kept)
        return ys_NO

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, h, and of each layer's A, B and m."""
        kept_NI, h_NX, *ys_NO = ctx.saved_tensors
        of_x, of_trained = ctx.dtypes
        to_x_NI: Tensor | None = None
        to_h_NX = torch.empty_like(h_NX)
        to_trained: list[Tensor | None] = []
        for at, (layer, ready, part) in enumerate(ctx.each):
            grad_NO, dtype = gradients[at], of_trained[at]
            torch.mm(grad_NO, ready.b_OR, out=to_h_NX[:, part])
            if isinstance(ready.of_b, float):
                to_b_OR = in_float32(grad_NO.t(), h_NX[:, part], ready.of_b)
            else:
                to_b_OR = in_float32(grad_NO.t(), h_NX[:, part]).mul_(ready.of_b)
            y_NO, to_m_O = ys_NO[at], None
            if y_NO is not None:
                to_m_O = _to_magnitude(grad_NO, y_NO, ready).to(dtype)
            if ctx.needs_input_grad[0]:
                to_x_NI = _to_input(to_x_NI, grad_NO, layer, ready, in_weight=ctx.in_weight[at])
            to_trained += [None, to_b_OR.to(dtype), to_m_O]
        if kept_NI is not None:
            to_a_XI = in_float32(to_h_NX.t(), kept_NI)
            for at, (_, _, part) in enumerate(ctx.each):
                to_trained[3 * at] = to_a_XI[part].to(of_trained[at])
            if to_x_NI is not None:
                to_x_NI.addmm_(to_h_NX, _a_of_all([ready for _, ready, _ in ctx.each]))
        return (
            None if to_x_NI is None else to_x_NI.to(of_x),
            None,
            to_h_NX if kept_NI is None else None,
            None,
            None,
            *to_trained,
        )


def _a_of_all(readies: Sequence[Prepared]) -> Tensor:
    """Return the A of layers below each other, [X, I]; without a copy if they lie so."""
    whole_GRI, first = readies[0].a_GRI, readies[0].at
    if all(one.a_GRI is whole_GRI and one.at == first + i for i, one in enumerate(readies)):
        return whole_GRI[first : first + len(readies)].flatten(0, 1)
    return torch.cat([one.a_GRI[one.at] for one in readies])


def _parts(h_NX: Tensor, readies: Sequence[Prepared]) -> list[slice]:
    """Return the columns of h that belong to each layer."""
    rank = h_NX.shape[1] // len(readies)
    return [slice(at * rank, (at + 1) * rank) for at in range(len(readies))]


def _in_weight(low_NI: Tensor, layer: FrozenLinear, ready: Prepared) -> bool:
    """Return whether factors are multiplied into the weight, not into what has a row for each x."""
    is_smaller = low_NI.shape[0] >= layer.in_features
    return ready.factors_O is not None and layer.compute is None and is_smaller


def _forward(
    low_NI: Tensor, h_NR: Tensor, layer: FrozenLinear, ready: Prepared, *, in_weight: bool
) -> Tensor:
    dtype, b_RO = low_NI.dtype, ready.b_OR.t()
    if ready.factors_O is None:
        if layer.compute is not None:
            return frozen_product(low_NI, layer.weight, ready.bias_O).addmm_(h_NR, b_RO)
        y_NO = functional.linear(h_NR, ready.b_OR, ready.bias_O)
        return y_NO.addmm_(low_NI, layer.weight.to(dtype).t())
    if in_weight:
        y_NO = h_NR @ b_RO
        y_NO.addmm_(low_NI, _scaled_weight(layer, ready.factors_O, dtype).t())
    else:
        y_NO = frozen_product(low_NI, in_dtype(layer.weight, dtype), None).mul_(ready.factors_O)
        y_NO.addmm_(h_NR, b_RO)
    return y_NO if ready.bias_O is None else y_NO.add_(ready.bias_O)


def _to_input(
    others_NI: Tensor | None,
    grad_NO: Tensor,
    layer: FrozenLinear,
    ready: Prepared,
    *,
    in_weight: bool,
) -> Tensor:
    """Return the gradient of x through the frozen product, [N, I], added to that of others."""
    if in_weight:
        assert ready.factors_O is not None
        weight_OI = _scaled_weight(layer, ready.factors_O, grad_NO.dtype)
    else:
        weight_OI = in_dtype(unpacked(layer.weight), grad_NO.dtype)
        if ready.factors_O is not None:
            grad_NO = torch.mul(grad_NO, ready.factors_O, out=torch.empty_like(grad_NO))
    return grad_NO @ weight_OI if others_NI is None else others_NI.addmm_(grad_NO, weight_OI)


def _to_magnitude(grad_NO: Tensor, y_NO: Tensor, ready: Prepared) -> Tensor:
    """Return the gradient of m, [O]: y is m times something without m, but for the bias."""
    assert ready.of_m_O is not None
    summed_O = (grad_NO * y_NO).sum(0, dtype=torch.float32)
    if ready.bias_O is not None:
        summed_O = summed_O - ready.bias_O * grad_NO.sum(0, dtype=torch.float32)
    return summed_O * ready.of_m_O


def _scaled_weight(layer: FrozenLinear, factors_O: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the rows of W times factors in fp32, [O, I], without a copy of W in fp32."""
    scaled = torch.empty(layer.weight.shape, dtype=dtype, device=layer.weight.device)
    return torch.mul(layer.weight, factors_O[:, None], out=scaled)
