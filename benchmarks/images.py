"""A small convolutional net on images that are made, for techniques about convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.batch import Batch
from hotloop.session.job import Job

if TYPE_CHECKING:
    from collections.abc import Mapping

CLASSES, SIDE = 10, 32
WIDTHS = (64, 128, 256)  # channels of the stages; the side is halved between them


class Images:
    """Noise over a pattern for each class: [N, 3, SIDE, SIDE] and [N]."""

    fingerprint, in_memory = "made of a generator", True

    def __init__(self, seed: int) -> None:
        self._seed = seed
        source = torch.Generator().manual_seed(seed)
        self._patterns = torch.randn(CLASSES, 3, SIDE, SIDE, generator=source)

    def __len__(self) -> int:
        """Return the number of samples of one epoch."""
        return 4096

    def ids(self, epoch: int, first: int, count: int) -> np.ndarray:
        """Return the numbers of samples."""
        return np.arange(first, first + count)

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return samples that depend on nothing but seed, epoch and place."""
        source = torch.Generator().manual_seed(self._seed + 10_000 * epoch + first)
        labels = torch.randint(CLASSES, (count,), generator=source)
        noise = torch.randn(count, 3, SIDE, SIDE, generator=source)
        tensors = {"images": self._patterns[labels] + noise, "labels": labels}
        return Batch(tensors=tensors, samples=count, tokens=count, targets=count)


def model() -> nn.Module:
    """Return two convolutions with batch norm in each of three stages, then a linear layer."""
    layers: list[nn.Module] = []
    inside = 3
    for width in WIDTHS:
        for stride in (1, 2):
            layers += [
                nn.Conv2d(inside, width, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.GELU(),
            ]
            inside = width
    ends = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(inside, CLASSES))
    return nn.Sequential(*layers, *ends)


def loss(model: nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean cross entropy in nats."""
    return cross_entropy(model(tensors["images"]), tensors["labels"])


def job(seed: int) -> Job:
    """Return the net with AdamW."""
    return Job(
        name="images",
        model=model,
        loss=loss,
        optimizer=AdamWFactory(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        train=Images(seed),
        valid=Images(seed + 1),
        seed=seed,
    )
