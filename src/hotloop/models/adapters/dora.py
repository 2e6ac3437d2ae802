"""DoRA: LoRA with rows rescaled to a learned length, without ever building W + sBA.

Dims: N positions, I inputs, O outputs, R rank.
y = m / norm * (x W^T + s (x A^T) B^T) + bias, where norm is that of the rows of W + sBA, a constant
to the gradient (section 4.3 of the paper, and PEFT). It is computed from terms:
|W|^2 + 2s rowsum(W A^T * B) + s^2 rowsum(B (A A^T) * B), where |W|^2 is known beforehand. Its error
is that of fp32 sums of the size (|W| + s|B||A|)^2: 1e-7, and more in a row that sBA almost cancels.
With dropout, PEFT also drops inputs of (m / norm - 1) x W^T and makes a second product with W for
it; here dropout is only before A, as in LoRA: the same mean, less noise, and equal in evaluation.
Source: Liu et al. 2024, arXiv:2402.09353.

The norm is computed in every forward pass unless `norms_held` declares the weights constant.
Changes cannot be detected reliably: torch's fused AdamW, bitsandbytes and `.data` write without
raising a tensor's version (torch 2.13).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from hotloop.models.adapters.lora import LoraLinear
from hotloop.models.adapters.nf4_linear import frozen_product, in_dtype, rows, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.models.adapters.config import AdapterConfig

__all__ = ["DoraLinear", "norms_held"]

_TINY = torch.finfo(torch.float32).tiny


class DoraLinear(LoraLinear):
    """A linear layer with LoRA and a learned length m [O] for each row of its weight."""

    lora_magnitude_vector: nn.Parameter
    squared_O: Tensor  # |W|^2 of each row, fp32
    holds: bool  # whether the norm is kept from forward to forward
    held: tuple[tuple[int, int], Tensor] | None  # versions of A and B, 1 / norm [O]

    def adopt(self, config: AdapterConfig, name: str) -> None:
        """Add A, B and m, which begins as the norm of W's rows."""
        super().adopt(config, name)
        self.holds, self.held = False, None
        self.register_buffer("squared_O", self._squared(), persistent=False)
        self.register_load_state_dict_post_hook(_measure_again)  # type: ignore[no-untyped-call]
        self.lora_magnitude_vector = self.placed(self.squared_O.sqrt())

    def _squared(self) -> Tensor:
        return torch.cat([block.detach().square().sum(1) for block in rows(self.weight)])

    def trained(self) -> dict[str, nn.Parameter]:
        """Return A, B and m."""
        return {**super().trained(), "lora_magnitude_vector": self.lora_magnitude_vector}

    def merged(self) -> tuple[Tensor, Tensor | None]:
        """Return m / norm * (W + s B A) and the bias, in fp32."""
        weight_OI, bias = super().merged()
        factors_O = self.lora_magnitude_vector.detach().float() * self.inverse_norm()
        return weight_OI * factors_O[:, None], bias

    def inverse_norm(self) -> Tensor:
        """Return 1 / norm of the rows of W + sBA, [O] fp32, computed or held.

        A row of zeros gets the largest finite value, so that its m of 0 makes 0, not NaN.
        """
        if torch.compiler.is_compiling() or not self.holds or _is_captured(self.lora_A):
            return self._computed_norm()
        versions = self.lora_A._version, self.lora_B._version
        if self.held is None or self.held[0] != versions:
            with torch.inference_mode(mode=False):  # else training could not use it later
                self.held = versions, self._computed_norm()
        return self.held[1]

    @torch.no_grad()
    def _computed_norm(self) -> Tensor:
        if torch.is_autocast_enabled(kind := self.lora_A.device.type):
            with torch.autocast(kind, enabled=False):
                return self._computed_norm()
        s, a_RI, b_OR = self.scaling, self.lora_A.float(), self.lora_B.float()
        a_IR = a_RI.t()
        blocks = [block @ a_IR for block in rows(self.weight)]
        wa_OR = blocks[0] if len(blocks) == 1 else torch.cat(blocks)
        both_OR = torch.addmm(wa_OR, b_OR, a_RI @ a_IR, beta=2 * s, alpha=s * s)
        is_exact = self.squared_O.dtype == torch.float32  # False if the whole model was cast
        squared_O = self.squared_O if is_exact else self._squared()
        squared_O = torch.linalg.vecdot(both_OR, b_OR).add_(squared_O)
        inverse_O: Tensor = squared_O.clamp_(min=_TINY).rsqrt_()
        return inverse_O

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        x_NI = x.reshape(-1, self.in_features)
        factors_O = self.lora_magnitude_vector * self.inverse_norm()
        if torch.compiler.is_compiling():  # the compiler fuses these passes
            y_NO = self.summed(x_NI, None)
            y_NO = (y_NO * factors_O).to(y_NO.dtype)
            return self.shaped(y_NO if self.bias is None else y_NO + self.bias, x)
        x_NI = x_NI.to(self.computed_in(x_NI))
        drops = self.adapter.dropout and self.training
        y_NO = _Lengthened.apply(  # type: ignore[no-untyped-call]
            x_NI,
            self.lowered(x_NI) if drops else None,
            None if drops else self.lora_A,
            self.lora_B,
            factors_O,
            self,
        )
        return self.shaped(y_NO, x)

    def scaled_weight(self, column_O1: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the rows of W times factors in fp32, [O, I], without a copy of W in fp32."""
        scaled = torch.empty(self.weight.shape, dtype=dtype, device=self.weight.device)
        return torch.mul(self.weight, column_O1, out=scaled)


class _Lengthened(torch.autograd.Function):
    """factors_O * (x W^T + s h B^T) + bias, [N, O], where h [N, R] is x A^T.

    The smaller of W and the result is multiplied by the factors, and the factors' gradient is
    computed from the result itself: nothing else of its size is kept (later code must not write
    into it). Factors stay fp32, because in bf16 they change in steps of 0.4 to 0.8 %; their product
    is rounded to bf16, so a factor within 0.2 % of 1 has no effect there, as in PEFT.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_NI: Tensor,
        h_NR: Tensor | None,  # None: computed here, and its gradient joins that of x
        a_RI: Tensor | None,
        b_OR: Tensor,
        factors_O: Tensor,
        layer: DoraLinear,
    ) -> Tensor:
        column_O1, dtype, ctx.layer = factors_O[:, None], x_NI.dtype, layer
        kept_NI = x_NI if a_RI is not None else None
        h_NR = x_NI @ a_RI.to(dtype).t() if a_RI is not None else h_NR
        assert h_NR is not None
        scaled_OR = (b_OR * (column_O1 * layer.scaling)).to(dtype)
        ctx.in_weight = layer.compute is None and x_NI.shape[0] >= layer.in_features
        if ctx.in_weight:
            y_NO = h_NR @ scaled_OR.t()
            y_NO.addmm_(x_NI, layer.scaled_weight(column_O1, dtype).t())
        else:
            y_NO = frozen_product(x_NI, in_dtype(layer.weight, dtype), None).mul_(factors_O)
            y_NO.addmm_(h_NR, scaled_OR.t())
        if layer.bias is not None:
            y_NO.add_(layer.bias)
        ctx.save_for_backward(kept_NI, h_NR, a_RI, scaled_OR, factors_O, y_NO)
        return y_NO

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (grad_NO,), layer, dtype = gradients, ctx.layer, gradients[0].dtype
        kept_NI, h_NR, a_RI, scaled_OR, factors_O, y_NO = ctx.saved_tensors
        to_h_NR = grad_NO @ scaled_OR
        to_b_OR = (grad_NO.t() @ h_NR) * (factors_O[:, None] * layer.scaling)
        to_x_NI = to_a_RI = None
        if ctx.needs_input_grad[0]:
            to_x_NI = _to_input(grad_NO, factors_O, layer, in_weight=ctx.in_weight)
        if a_RI is not None:
            to_a_RI = (to_h_NR.t() @ kept_NI).to(a_RI.dtype)
            to_x_NI = None if to_x_NI is None else to_x_NI.addmm_(to_h_NR, a_RI.to(dtype))
        summed_O = (grad_NO * y_NO).sum(0, dtype=torch.float32)
        if layer.bias is not None:
            summed_O = summed_O - layer.bias * grad_NO.sum(0, dtype=torch.float32)
        to_factors_O = torch.where(factors_O == 0, 0.0, summed_O / factors_O)
        to_h_NR = to_h_NR if a_RI is None else None
        return to_x_NI, to_h_NR, to_a_RI, to_b_OR, to_factors_O, None


def _to_input(grad_NO: Tensor, factors_O: Tensor, layer: DoraLinear, *, in_weight: bool) -> Tensor:
    """Return the gradient of x through the frozen product, [N, I]."""
    if in_weight:
        return grad_NO @ layer.scaled_weight(factors_O[:, None], grad_NO.dtype)
    scaled_NO = torch.mul(grad_NO, factors_O, out=torch.empty_like(grad_NO))
    return scaled_NO @ in_dtype(unpacked(layer.weight), grad_NO.dtype)


def _is_captured(tensor: Tensor) -> bool:
    """Return whether a CUDA graph is being recorded, whose inputs must be computed in it."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _measure_again(layer: nn.Module, _: object) -> None:
    """Update the norms after load_state_dict, which may have loaded another W."""
    assert isinstance(layer, DoraLinear)
    layer.squared_O.copy_(layer._squared())
    layer.held = None


@contextlib.contextmanager
def norms_held(model: nn.Module) -> Iterator[None]:
    """Compute each norm once and keep it in this context: an accumulation window, an evaluation.

    Nothing may write A or B meanwhile without raising their versions, except an optimizer's `step`,
    after which norms are computed again.
    """
    layers = [module for module in model.modules() if isinstance(module, DoraLinear)]
    before = [layer.holds for layer in layers]

    def forget(*_: object) -> None:
        for layer in layers:
            layer.held = None

    hook = register_optimizer_step_post_hook(forget) if layers else None
    try:
        for layer in layers:
            layer.holds = True
        yield
    finally:
        if hook is not None:
            hook.remove()
        for layer, held_before in zip(layers, before, strict=True):
            layer.holds = held_before
        forget()
