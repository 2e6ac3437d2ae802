"""Matrices in 16 bits: half the memory, and no cast of them in each micro batch.

Under autocast a product with a frozen float32 weight casts it again in every micro batch, and
autograd keeps the copy for the backward pass: 6 bytes for each weight. A weight that is stored in
autocast's own dtype takes 2, and the product is the same, bit for bit. An embedding is looked up,
not multiplied: it is stored in 16 bits only where its file has it so, and what is looked up becomes
float32, so that nothing is lost. Matrices that are trained can be stored so as well, if their
optimizer rounds stochastically (`models.adamw_8bit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from hotloop.models.adapters.nf4_linear import frozen_product
from hotloop.models.adapters.product import LOW

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LowEmbedding", "LowLinear", "lower", "lowered"]


class LowLinear(nn.Linear):
    """A linear layer in 16 bits. Without autocast it computes in the dtype of its input."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]."""
        return frozen_product(x, self.weight, self.bias)


class LowEmbedding(nn.Embedding):
    """An embedding in 16 bits, whose output is float32."""

    def forward(self, ids: Tensor) -> Tensor:
        """[...] -> [..., D]."""
        return super().forward(ids).float()


def lower(
    model: nn.Module,
    dtype: torch.dtype,
    *,
    stored: torch.dtype | None,
    is_filled: bool,
    is_trained: bool = False,
) -> None:
    """Store the matrices of a model in 16 bits, in place; it is to be frozen, or `is_trained`.

    Linear layers are stored in `dtype`, that of their products. Embeddings, and the linear layers
    that share their weight, are stored in `stored`, the dtype of the model's files if that has 16
    bits, else they stay as they are; if they are trained, in `dtype` as well. Subclasses of both
    stay as they are. Values are kept only if the model `is_filled`.
    """
    users: dict[nn.Parameter, list[nn.Module]] = {}
    for module in model.modules():
        weight = module._parameters.get("weight")
        if weight is not None:
            users.setdefault(weight, []).append(module)
    for weight, modules in users.items():
        kinds = {type(module) for module in modules}
        into = dtype if kinds == {nn.Linear} or is_trained else stored
        if into is None or not kinds <= {nn.Linear, nn.Embedding}:
            continue
        values = weight.detach().to(into) if is_filled else torch.empty_like(weight, dtype=into)
        low = nn.Parameter(values, requires_grad=is_trained)
        for module in modules:
            module.weight = low
            module.__class__ = LowLinear if type(module) is nn.Linear else LowEmbedding


def lowered(model: nn.Module, *, trained: bool = False) -> Mapping[str, Tensor]:
    """Return the frozen (or the trained) matrices of a model that are in 16 bits, by name."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and parameter.dtype in LOW and parameter.requires_grad == trained
    }
