"""Join a model and its loss in one module, which torch's wrappers can wrap.

Recipes call their models in different ways inside the loss. Because the wrapper is around the loss,
that code need not know about several ranks, and the model keeps its parameters' names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

__all__ = ["Whole"]


class Whole(nn.Module):
    """Compute the mean loss of a batch."""

    def __init__(self, model: nn.Module, loss: Callable[[Mapping[str, Tensor]], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the loss, a scalar."""
        return self._loss(tensors)
