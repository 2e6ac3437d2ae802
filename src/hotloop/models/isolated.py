"""Attention over packed rows that never crosses from one document into another.

Dims: B rows, T positions, H heads, K head width, N = B * T positions of the batch as one row.
Two ways that run everywhere, forward and backward. In both, a document's outputs and gradients are
the same to the last bit whatever finite numbers stand in the other documents, and the gradient of
its loss with respect to them is exactly 0. In `masked`, a value of another document is multiplied
by 0: an infinite or NaN one spreads over its row, in `per_document` it does not.
FlexAttention has no backward on CPU, and varlen_attn is CUDA only (torch 2.13): `isolated_card`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from hotloop.core.boundaries import Boundaries

__all__ = ["block_mask", "flat", "masked", "per_document", "rows_again", "segments_of"]


def per_document(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    boundaries: Boundaries,
    *,
    causal: bool = True,
    scale: float | None = None,
) -> Tensor:
    """Attend in each segment by itself, [B, H, T, K]; keys and values may have fewer heads.

    The work grows with the sum of squared lengths, and with one call for each segment.
    """
    parts = [
        torch.split(flat(x), list(boundaries.lengths), dim=1) for x in (q_BHTK, k_BHTK, v_BHTK)
    ]
    shares = q_BHTK.shape[1] != k_BHTK.shape[1]
    out = [
        functional.scaled_dot_product_attention(
            q[None], k[None], v[None], is_causal=causal, scale=scale, enable_gqa=shares
        )[0]
        for q, k, v in zip(*parts, strict=True)
    ]
    return rows_again(torch.cat(out, dim=1), boundaries)


def masked(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    mask_B1TT: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """Attend where the mask is true, [B, H, T, K]: one call, and all T x T products of each row."""
    return functional.scaled_dot_product_attention(
        q_BHTK,
        k_BHTK,
        v_BHTK,
        attn_mask=mask_B1TT,
        scale=scale,
        enable_gqa=q_BHTK.shape[1] != k_BHTK.shape[1],
    )


def block_mask(
    boundaries: Boundaries, *, causal: bool = True, device: torch.device | None = None
) -> Tensor:
    """Return where a position (dim 2) may look (dim 3): [B, 1, T, T] bool, once a batch."""
    of_BT = segments_of(boundaries, device=device)
    mask_BTT = of_BT[:, :, None] == of_BT[:, None, :]
    return (mask_BTT.tril_() if causal else mask_BTT)[:, None]


def segments_of(boundaries: Boundaries, *, device: torch.device | None = None) -> Tensor:
    """Return the number of the segment of each position, [B, T] int32; no device is asked."""
    lengths = torch.tensor(boundaries.lengths)
    numbers = torch.arange(len(boundaries.lengths), dtype=torch.int32)
    of_N = numbers.repeat_interleave(lengths, output_size=boundaries.rows * boundaries.width)
    return of_N.view(boundaries.rows, boundaries.width).to(device or torch.device("cpu"))


def flat(x_BHTK: Tensor) -> Tensor:
    """[B, H, T, K] -> [H, N, K]."""
    return x_BHTK.transpose(0, 1).flatten(1, 2)


def rows_again(x_HNK: Tensor, boundaries: Boundaries) -> Tensor:
    """[H, N, K] -> [B, H, T, K]."""
    H, _, K = x_HNK.shape
    return x_HNK.view(H, boundaries.rows, boundaries.width, K).transpose(0, 1)
