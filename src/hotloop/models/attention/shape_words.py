"""What a choice among ways to attend depends on, in words, as it is saved in a file.

Dims: B rows, T positions, H heads, K head width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hotloop.core.document_boundaries import bucket
from hotloop.models.attention.documents import computed_in

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["of_any_length", "of_shape"]


def of_any_length(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    rows: str,
    *,
    causal: bool,
    window: int | None,
    dropout: float,
) -> str:
    """Return what a choice on a GPU depends on, in words."""
    dtype = str(computed_in(q_BHTK)).removeprefix("torch.")
    shape = f"{q_BHTK.device.type} {dtype}, {rows} of any length"
    return f"{shape}, {_layer(q_BHTK, k_BHTK, causal=causal, window=window, dropout=dropout)}"


def of_shape(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    rows: str,
    *,
    causal: bool,
    window: int | None,
    dropout: float,
) -> str:
    """Return the shape's bucket in words, as saved in a file; `rows` describes the contents."""
    B, _, T, _ = q_BHTK.shape
    layer = _layer(q_BHTK, k_BHTK, causal=causal, window=window, dropout=dropout)
    return (
        f"{q_BHTK.device.type} {str(q_BHTK.dtype).removeprefix('torch.')}, "
        f"{bucket(B)} x {bucket(T)} positions, {rows}, {layer}"
    )


def _layer(
    q_BHTK: Tensor, k_BHTK: Tensor, *, causal: bool, window: int | None, dropout: float
) -> str:
    learns = torch.is_grad_enabled() and (q_BHTK.requires_grad or k_BHTK.requires_grad)
    return (
        f"{q_BHTK.shape[1]} heads of {q_BHTK.shape[3]} over {k_BHTK.shape[1]}, "
        f"{'causal' if causal else 'both directions'}, {'trained' if learns else 'evaluated'}"
        f"{'' if window is None else f', window of {window}'}{', dropout' if dropout else ''}"
    )
