"""The loss of labels at their own token: each label is predicted from the position before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["shifted_loss"]


def shifted_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross entropy in nats of the labels that are not -100, a scalar.

    Logits are [B, T, V], labels [B, T]. The logits at t predict the label at t + 1. The first label
    of each row is never used, and `data.sampling.token_rows` gives no label to the first token of a
    document, so nothing is predicted from another document. The mean is over all used labels of the
    batch; without any it is 0, and so are gradients.
    """
    total = functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum"
    )
    return total / (labels[:, 1:] != -100).sum().clamp(min=1)
