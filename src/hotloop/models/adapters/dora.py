"""DoRA: LoRA with rows rescaled to a learned length, without ever building W + sBA.

Dims: G layers, N positions, I inputs, O outputs, R rank.
y = m / norm * (x W^T + s (x A^T) B^T) + bias, where norm is that of the rows of W + sBA, a constant
to the gradient (section 4.3 of the paper, and PEFT). It is computed from terms:
|W|^2 + 2s rowsum(W A^T * B) + s^2 rowsum(B (A A^T) * B), where |W|^2 is known beforehand. Its error
is that of fp32 sums of the size (|W| + s|B||A|)^2: 1e-7, and more in a row that sBA almost cancels.
For W in 16 bits on a GPU, A is taken as the sum of two numbers of 16 bits in W A^T (error 2^-17).
With dropout, PEFT also drops inputs of (m / norm - 1) x W^T and makes a second product with W for
it; here dropout is only before A, as in LoRA: the same mean, less noise, and equal in evaluation.
Source: Liu et al. 2024, arXiv:2402.09353.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from hotloop.models.adapters.lora import LoraLinear, together
from hotloop.models.adapters.nf4_linear import is_quantised, rows
from hotloop.models.adapters.product import LOW, Prepared, in_float32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.models.adapters.config import AdapterConfig

__all__ = ["DoraLinear", "as_two"]

_TINY = torch.finfo(torch.float32).tiny


class DoraLinear(LoraLinear):
    """A linear layer with LoRA and a learned length m [O] for each row of its weight."""

    lora_magnitude_vector: nn.Parameter
    squared_O: Tensor  # |W|^2 of each row, fp32

    def adopt(self, config: AdapterConfig, name: str) -> None:
        """Add A, B and m, which begins as the norm of W's rows."""
        super().adopt(config, name)
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

    @torch.no_grad()
    def inverse_norm(self) -> Tensor:
        """Return 1 / norm of the rows of W + sBA, [O] fp32.

        A row of zeros gets the largest finite value, so that its m of 0 makes 0, not NaN.
        """
        with torch.autocast(self.lora_A.device.type, enabled=False):
            return _inverse_norms([self], together([self.lora_A]), together([self.lora_B]))[0]

    @classmethod
    def _prepared(
        cls, layers: Sequence[LoraLinear], a_GRI: Tensor, at: Sequence[int]
    ) -> list[Prepared]:
        own = cast("Sequence[DoraLinear]", layers)
        b_GOR = together([layer.lora_B for layer in layers])
        m_GO = together([layer.lora_magnitude_vector for layer in own])
        norms_GO = _inverse_norms(own, together([layer.lora_A for layer in layers]), b_GOR)
        factors_GO = m_GO * norms_GO
        scales_GO1 = (factors_GO * layers[0].scaling)[..., None]
        low_GOR = torch.mul(b_GOR, scales_GO1, out=torch.empty_like(b_GOR, dtype=a_GRI.dtype))
        of_m_GO = torch.where(m_GO == 0, 0.0, 1 / m_GO)
        parts = at, low_GOR, scales_GO1, factors_GO, of_m_GO
        return [
            Prepared(
                a_GRI=a_GRI,
                at=i,
                b_OR=b_OR,
                bias_O=layer.bias_in(a_GRI.dtype),
                of_b=scales_O1,
                factors_O=factors_O,
                of_m_O=of_m_O,
            )
            for layer, i, b_OR, scales_O1, factors_O, of_m_O in zip(layers, *parts, strict=True)
        ]

    @property
    def magnitude(self) -> nn.Parameter:
        """Return m [O]."""
        return self.lora_magnitude_vector

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        if torch.compiler.is_compiling():  # the compiler fuses these passes
            factors_O = self.lora_magnitude_vector * self.inverse_norm()
            y_NO = self.plainly(x.reshape(-1, self.in_features), None)
            y_NO = (y_NO * factors_O).to(y_NO.dtype)
            return self.shaped(y_NO if self.bias is None else y_NO + self.bias, x)
        return self.shaped(self.product(x), x)


def _inverse_norms(layers: Sequence[DoraLinear], a_GRI: Tensor, b_GOR: Tensor) -> Tensor:
    """Return 1 / norm of the rows of W + sBA of layers of one shape, [G, O] fp32."""
    s, squares = layers[0].scaling, [_squares(layer) for layer in layers]
    products_GOR = _weights_times_a(layers, a_GRI)
    if len(layers) == 1:  # a batched product of a few numbers is summed less exactly on a CPU
        a_RI, b_OR = a_GRI[0], b_GOR[0]
        both_GOR = torch.addmm(products_GOR[0], b_OR, a_RI @ a_RI.t(), beta=2 * s, alpha=s * s)[
            None
        ]
    else:
        squares_GRR = a_GRI @ a_GRI.transpose(1, 2)
        both_GOR = torch.baddbmm(products_GOR, b_GOR, squares_GRR, beta=2 * s, alpha=s * s)
    squared_GO = torch.linalg.vecdot(both_GOR, b_GOR).add_(together(squares))
    inverse_GO: Tensor = squared_GO.clamp_(min=_TINY).rsqrt_()
    return inverse_GO


def _squares(layer: DoraLinear) -> Tensor:
    """Return |W|^2 of each row in fp32; the kept one is not if the whole model was cast."""
    is_exact = layer.squared_O.dtype == torch.float32
    return layer.squared_O if is_exact else layer._squared()


def _weights_times_a(layers: Sequence[DoraLinear], a_GRI: Tensor) -> Tensor:
    """Return W A^T of each layer, [G, O, R] fp32."""
    weight = layers[0].weight
    is_low = weight.dtype in LOW and not is_quantised(weight)
    if is_low and weight.is_cuda and not torch.compiler.is_compiling():
        split_GSI = as_two(a_GRI, weight.dtype)
        products = [
            in_float32(layer.weight, split_SI.t())
            for layer, split_SI in zip(layers, split_GSI, strict=True)
        ]
        both_GOS = together(products)
        rank = a_GRI.shape[1]
        return both_GOS[..., :rank] + both_GOS[..., rank:]
    products = [
        torch.cat([block @ a_RI.t() for block in rows(layer.weight)])
        for layer, a_RI in zip(layers, a_GRI, strict=True)
    ]
    return together(products)


def as_two(a_GRI: Tensor, dtype: torch.dtype) -> Tensor:
    """Return fp32 numbers as two of 16 bits that add up to them, [G, 2 R, I]."""
    count, rank, width = a_GRI.shape
    split_GSI = torch.empty(count, 2 * rank, width, dtype=dtype, device=a_GRI.device)
    split_GSI[:, :rank].copy_(a_GRI)
    torch.sub(a_GRI, split_GSI[:, :rank], out=split_GSI[:, rank:])
    return split_GSI


def _measure_again(layer: nn.Module, _: object) -> None:
    """Update the norms after load_state_dict, which may have loaded another W."""
    assert isinstance(layer, DoraLinear)
    layer.squared_O.copy_(layer._squared())
    if layer.holder is not None:
        layer.holder.forget()
