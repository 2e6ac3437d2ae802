"""A model together with its loss as one module: what torch's wrappers take hold of.

Recipes call their models in ways of their own inside the loss. Wrapped around the loss, nothing of
that has to know of several ranks, and the model keeps its parameters' names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

__all__ = ["Whole"]


class Whole(nn.Module):
    """Computes the mean loss of a batch."""

    def __init__(self, model: nn.Module, loss: Callable[[Mapping[str, Tensor]], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the loss, a scalar."""
        return self._loss(tensors)
