"""Builds the optimizers of the recipes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from hotloop.models import adamw

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from hotloop.config.common import Training

__all__ = ["AdamWFactory", "optimizer_of", "state_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamWFactory:
    """Builds an AdamW whose matrices decay and whose biases and norms do not."""

    learning_rate: float
    betas: tuple[float, float]
    weight_decay: float

    def __call__(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer of a model's trainable parameters."""
        groups = _groups(model, self.weight_decay)
        return adamw.AdamW(groups, lr=self.learning_rate, betas=self.betas)


def optimizer_of(training: Training) -> Callable[[nn.Module], torch.optim.Optimizer]:
    """Return the factory of the configured optimizer; matrices decay, biases and norms do not.

    adafactor is torch's, with the configured learning rate (Shazeer and Stern 2018,
    arXiv:1804.04235). For adamw_8bit it is AdamW, which the technique adamw-8bit replaces.
    """
    if training.optim == "adafactor":
        return partial(_adafactor, training)
    return AdamWFactory(
        learning_rate=training.learning_rate,
        betas=training.betas,
        weight_decay=training.weight_decay,
    )


def state_bytes(training: Training) -> Callable[[Tensor], int] | None:
    """Return the function parameter -> bytes of optimizer state; None: the forecast makes a step.

    It is for optimizers whose step a forecast cannot make.
    """
    return _factored_bytes if training.optim == "adafactor" else None


def _factored_bytes(parameter: Tensor) -> int:
    if parameter.dim() < 2:
        return 4 * parameter.numel()
    *rows, height, width = parameter.shape
    return 4 * math.prod(rows) * (height + width)


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _adafactor(training: Training, model: nn.Module) -> torch.optim.Optimizer:
    groups = _groups(model, training.weight_decay)
    return torch.optim.Adafactor(groups, lr=training.learning_rate)
