"""The cross entropy of a linear layer, whose gradients are made in the forward pass, part by part.

Dims: n positions, m of them at a time, D width, V vocabulary.
Logits of one part exist at a time, and never their gradient besides the gradients of hidden states
and head: the backward pass only multiplies these by a number. Each logit is computed once, so it
costs the three products of the plain loss. Two buffers of m x V in fp32 are the peak.
Sources: Hsu et al. 2024, arXiv:2410.10989 (Liger Kernel: gradients in the forward pass);
Wijmans et al. 2024, arXiv:2411.09009 (Cut Cross-Entropy); z-loss: Chowdhery et al. 2022,
arXiv:2204.02311, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor
from torch.nn import functional

from hotloop.models.adapters.product import in_float32

__all__ = ["LossTerms", "linear_cross_entropy"]

_NO_LOSS: Final = -100  # the label that carries none
# Gradients of logits are multiplied by it before they become float16, whose steps of 6e-8 are 1 %
# of the probability of one of 150,000 words. Products are divided by it again in fp32.
_LIFT: Final = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTerms:
    """What the loss is besides the plain cross entropy."""

    softcap: float | None = None  # logits become softcap * tanh(logits / softcap)
    label_smoothing: float = 0.0  # share of the target that all classes have alike
    z_loss: float = 0.0  # times the square of each log of the softmax's sum


def linear_cross_entropy(
    hidden_nD: Tensor,
    weight_VD: Tensor,
    labels_n: Tensor,
    *,
    bias_V: Tensor | None = None,
    terms: LossTerms = LossTerms(),
    rows: int,
    reduction: Literal["sum", "none"] = "sum",
) -> Tensor:
    """Return the sum of the losses of all positions, or each of them, [n]; fp32.

    A position with the label -100 has a loss of 0. `rows` positions have logits at a time. Products
    are in autocast's dtype where it is on, else in that of the hidden states. A head that is not
    trained needs no gradient and no memory for one. Raises ValueError for `reduction="none"` and a
    head that is trained: its gradient cannot be made before it is known what each loss counts.
    """
    trained = weight_VD.requires_grad or (bias_V is not None and bias_V.requires_grad)
    if reduction == "none" and trained and torch.is_grad_enabled():
        raise ValueError("the head is trained: only the sum of its losses can be fused")
    loss: Tensor = _Fused.apply(  # type: ignore[no-untyped-call]
        hidden_nD, weight_VD, bias_V, labels_n, terms, max(1, rows), reduction == "none"
    )
    return loss


class _Fused(torch.autograd.Function):
    """The sum of losses, or each of them; its backward may run once."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_nD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        labels_n: Tensor,
        terms: LossTerms,
        rows: int,
        each: bool,
    ) -> Tensor:
        """Return the loss; keep the gradients of what needs one."""
        kind = hidden_nD.device.type
        dtype = hidden_nD.dtype
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        needs = ctx.needs_input_grad[:3]
        gradients = _Gradients(
            hidden=torch.empty_like(hidden_nD) if needs[0] else None,
            weight=torch.zeros_like(weight_VD, dtype=torch.float32) if needs[1] else None,
            bias=torch.zeros_like(bias_V, dtype=torch.float32)
            if bias_V is not None and needs[2]
            else None,
        )
        losses_n = torch.empty(len(labels_n), device=hidden_nD.device)
        with torch.autocast(kind, enabled=False):
            low_VD = weight_VD.detach().to(dtype)
            for first in range(0, len(labels_n), rows):
                part = slice(first, first + rows)
                low_mD = hidden_nD[part].detach().to(dtype)
                losses_n[part] = _of_part(
                    low_mD, low_VD, bias_V, labels_n[part], terms, gradients, part
                )
        ctx.save_for_backward(gradients.hidden, gradients.weight, gradients.bias)
        of_bias = None if bias_V is None else bias_V.dtype
        ctx.dtypes, ctx.is_spent = (weight_VD.dtype, of_bias), False
        return losses_n if each else losses_n.sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients that were made; the large one in place."""
        if ctx.is_spent:
            raise RuntimeError("the fused cross entropy keeps its gradients for one backward pass")
        ctx.is_spent = True
        (by,), (to_hidden, to_weight, to_bias) = gradients, ctx.saved_tensors
        of_weight, of_bias = ctx.dtypes
        of_hidden = by[:, None] if by.dim() else by
        return (
            None if to_hidden is None else to_hidden.mul_(of_hidden),
            None if to_weight is None else to_weight.mul_(by).to(of_weight),
            None if to_bias is None else to_bias.mul_(by).to(of_bias),
            None,
            None,
            None,
            None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gradients:
    """Where gradients are written to; None: nobody needs them."""

    hidden: Tensor | None
    weight: Tensor | None  # fp32, as that of the bias
    bias: Tensor | None


def _of_part(
    low_mD: Tensor,
    low_VD: Tensor,
    bias_V: Tensor | None,
    labels_m: Tensor,
    terms: LossTerms,
    gradients: _Gradients,
    part: slice,
) -> Tensor:
    """Return the losses of a part of the positions, [m], and write their gradients."""
    to_hidden, to_weight, to_bias = gradients.hidden, gradients.weight, gradients.bias
    wants = not (to_hidden is None and to_weight is None and to_bias is None)
    logits_mV = in_float32(low_mD, low_VD.t())
    if bias_V is not None:
        logits_mV += bias_V
    losses_m, gradient_mV, real_m = _of_logits(logits_mV, labels_m, terms, wants=wants)
    del logits_mV
    if gradient_mV is None:
        return losses_m
    real_m1, lift = real_m[:, None].to(low_mD.dtype), 1.0
    if to_bias is not None:
        to_bias += (gradient_mV * real_m1).sum(0)
    if low_mD.dtype == torch.float16:
        gradient_mV, lift = gradient_mV.mul_(_LIFT), _LIFT
    low_mV = gradient_mV.to(low_mD.dtype)
    del gradient_mV
    if to_hidden is not None:
        to_hidden[part] = in_float32(low_mV, low_VD, 1 / lift).mul_(real_m1)
    if to_weight is not None:
        _add_product(to_weight, low_mV.t(), low_mD * real_m1, 1 / lift)
    return losses_m


def _of_logits(
    logits_mV: Tensor, labels_m: Tensor, terms: LossTerms, *, wants: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return the losses [m], the gradient of the logits, and which rows carry loss (1 or 0).

    The gradient of rows without loss is to be multiplied by 0. The logits are written over.
    """
    slope_mV = None
    if terms.softcap is not None:
        squashed_mV = logits_mV.div_(terms.softcap).tanh_()
        logits_mV = squashed_mV * terms.softcap
        slope_mV = squashed_mV.square_().neg_().add_(1) if wants else None
    is_real_m = labels_m != _NO_LOSS
    label_m1 = labels_m.clamp(min=0)[:, None]
    own_m = logits_mV.gather(1, label_m1)[:, 0]
    log_p_mV = functional.log_softmax(logits_mV, -1)
    del logits_mV
    log_p_m = log_p_mV.gather(1, label_m1)[:, 0]
    smoothing, z_loss = terms.label_smoothing, terms.z_loss
    losses_m = -log_p_m
    if smoothing:
        losses_m = torch.lerp(losses_m, -log_p_mV.mean(-1), smoothing)
    log_sum_m = own_m - log_p_m
    if z_loss:
        losses_m = losses_m + z_loss * log_sum_m.square()
    real_m = is_real_m.to(log_p_m.dtype)
    losses_m = losses_m * real_m
    if not wants:
        return losses_m, None, real_m
    gradient_mV = log_p_mV.exp_()
    if z_loss:
        gradient_mV.mul_((1 + 2 * z_loss * log_sum_m)[:, None])
    taken = torch.full_like(label_m1, smoothing - 1, dtype=gradient_mV.dtype)
    gradient_mV.scatter_add_(1, label_m1, taken)
    if smoothing:
        gradient_mV.sub_(smoothing / gradient_mV.shape[1])
    return losses_m, gradient_mV if slope_mV is None else gradient_mV.mul_(slope_mV), real_m


def _add_product(total: Tensor, first: Tensor, second: Tensor, by: float) -> None:
    """Add a product times a number to an fp32 tensor in place."""
    if first.dtype == total.dtype:
        total.addmm_(first, second, alpha=by)
    elif first.is_cuda:
        torch.addmm(total, first, second, out_dtype=torch.float32, alpha=by, out=total)
    else:
        total.add_(first @ second, alpha=by)
