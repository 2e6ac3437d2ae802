"""Two forms of the same work, as functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.case.rewrite import Rewrite

__all__ = ["Forms", "random_tensor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """Two functions that compute the same of the same tensors."""

    inputs: list[Any]  # of both
    old: Callable[[], Sequence[Any]]
    new: Callable[[], Sequence[Any]]
    # Without dropout, and with results of the same shapes.
    exact: tuple[Callable[[], Sequence[Any]], Callable[[], Sequence[Any]]]
    weights: Sequence[Any] = ()  # of one of them
    adds_up: bool = False  # the gradients of weights are added to those of other calls


def random_tensor(shape: Sequence[int], dtype: str, rewrite: Rewrite, needs_grad: bool) -> Any:
    """Return a tensor of a shape for a rewrite, on its device."""
    import torch

    tensor = torch.randn(*shape, dtype=getattr(torch, dtype), device=rewrite.device)
    return tensor.requires_grad_(needs_grad)
