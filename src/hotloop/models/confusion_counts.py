"""Count on the device which classes were predicted for which, without blocking the host."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["confusion"]


def confusion(logits: Tensor, labels: Tensor, groups: Tensor | None, into: Tensor) -> None:
    """Add the rows of a batch to counts [groups, classes, classes], int64, contiguous.

    logits are [rows, classes]; labels and groups are int64 [rows], in range (the data are checked
    before step 1); without groups all rows are of group 0. Among equal logits the first class
    counts. The sums are of integers, so their order has no effect. torch.bincount is not used,
    because on a GPU it reads the largest value back, even if minlength is given.
    """
    classes = into.shape[-1]
    place = labels * classes + logits.argmax(-1)
    if groups is not None:
        place += groups * (classes * classes)
    into.view(-1).index_add_(0, place, torch.ones_like(place))
