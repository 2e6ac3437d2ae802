"""Builds the optimizers of the recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.models import adamw

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["AdamW"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW:
    """Builds an AdamW whose matrices decay and whose biases and norms do not."""

    learning_rate: float
    betas: tuple[float, float]
    weight_decay: float

    def __call__(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer of a model's trainable parameters."""
        trainable = [p for p in model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": self.weight_decay},
            {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
        ]
        used = [group for group in groups if group["params"]]
        return adamw.AdamW(used, lr=self.learning_rate, betas=self.betas)
