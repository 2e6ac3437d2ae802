"""Add up losses by the part of the data that they belong to, on the device, until they are read.

Dims: K parts, n losses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["Costs"]


class Costs(nn.Module):
    """Sum and number of the losses of each part; not saved in checkpoints."""

    cost_2K: Tensor

    def __init__(self, parts: int) -> None:
        """Begin at 0."""
        super().__init__()
        zeros_2K = torch.zeros(2, parts, dtype=torch.float64)
        self.register_buffer("cost_2K", zeros_2K, persistent=False)

    @torch.no_grad()
    def add(self, loss_n: Tensor, part_n: Tensor) -> None:
        """Add losses of a training step to their parts; a loss of exactly 0 is not counted.

        The sum is a matrix product, whose order of additions is always the same, on a GPU as well.
        """
        of_nK = functional.one_hot(part_n, self.cost_2K.shape[1]).to(self.cost_2K.dtype)
        values_2n = torch.stack([loss_n, loss_n != 0]).to(self.cost_2K.dtype)
        self.cost_2K += values_2n @ of_nK

    def taken(self, names: Sequence[str]) -> dict[str, float]:
        """Return the mean of each part that had losses, by name; reset. Waits for the device."""
        total, count = self.cost_2K.tolist()
        self.cost_2K.zero_()
        return {name: t / n for name, t, n in zip(names, total, count, strict=True) if n}
