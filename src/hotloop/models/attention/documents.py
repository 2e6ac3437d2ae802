"""Attention over packed rows that never crosses from one document into another.

Dims: B rows, T positions, H heads, K head width, N = B * T positions of the batch as one row.
Two ways that run everywhere, forward and backward. In both, a document's outputs and gradients are
the same to the last bit for any finite numbers in the other documents, and the gradient of its loss
with respect to them is exactly 0. In `masked`, a value of another document is multiplied by 0: an
infinite or NaN value spreads over its row; in `per_document` it does not. FlexAttention has no
backward on CPU, and varlen_attn is CUDA only (torch 2.13): `documents_cuda`. With a `window` of W a
position sees itself and W - 1 before it (and after it, in both directions).
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from hotloop.models.attention.drop import drop

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from hotloop.core.document_boundaries import Boundaries

__all__ = [
    "block_mask",
    "capped",
    "computed_in",
    "flat",
    "for_each_head",
    "fused",
    "masked",
    "near",
    "per_document",
    "rows_again",
    "segments_of",
    "wide",
    "written_out",
]


# Numbers of 16 bits that torch's softmax takes at once on a CPU. With fewer it takes 3 times as
# long as with casts to float32 and back, with more 0.4 to 1.2 (AVX-512, torch 2.13, 2026-11).
_AT_ONCE = 32


def fused(
    q_BHTK: Tensor,
    k_BHSK: Tensor,
    v_BHSK: Tensor,
    attn_mask: Tensor | None = None,
    *,
    enable_gqa: bool = False,
    **how: Any,
) -> Tensor:
    """Compute SDPA of the same arguments; on a GPU by a fused kernel, whatever heads share keys.

    Of the kernels for CUDA only FlashAttention takes fewer heads of keys than of queries, and it
    takes no mask: where it cannot be used, SDPA would write all scores out
    (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, torch 2.13, 2026-11).
    """
    if enable_gqa and q_BHTK.is_cuda and (attn_mask is not None or not _has_flash(q_BHTK)):
        k_BHSK, v_BHSK, enable_gqa = *for_each_head(q_BHTK, k_BHSK, v_BHSK), False
    return functional.scaled_dot_product_attention(
        q_BHTK, k_BHSK, v_BHSK, attn_mask, enable_gqa=enable_gqa, **how
    )


def _has_flash(x: Tensor) -> bool:
    """Whether FlashAttention is for the dtype and the GPU of a tensor."""
    is_half = computed_in(x) in (torch.float16, torch.bfloat16)
    return is_half and torch.cuda.get_device_properties(x.device).major >= 8


def for_each_head(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values repeated, so that each head of queries has its own."""
    shares = q_BHTK.shape[1] // k_BHSK.shape[1]
    return k_BHSK.repeat_interleave(shares, dim=1), v_BHSK.repeat_interleave(shares, dim=1)


def per_document(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    boundaries: Boundaries,
    *,
    causal: bool = True,
    scale: float | None = None,
    window: int | None = None,
    dropout: float = 0.0,
    by: Callable[..., Tensor] = fused,
) -> Tensor:
    """Attend in each segment by itself, [B, H, T, K]; keys and values may have fewer heads.

    `by` attends in one segment: `fused`, or another one with its arguments. The work grows with
    the sum of squared lengths (with a shorter window, of lengths times windows), plus one call for
    each run of segments of equal length, or for each window.
    """
    alike = [(length, len([*run])) for length, run in groupby(boundaries.lengths)]
    sizes = [length * count for length, count in alike]
    splits = [torch.split(flat(x), sizes, dim=1) for x in (q_BHTK, k_BHTK, v_BHTK)]
    attend = partial(
        by,
        scale=scale,
        dropout_p=dropout,
        enable_gqa=q_BHTK.shape[1] != k_BHTK.shape[1],
    )
    out = []
    for (length, count), *qkv in zip(alike, *splits, strict=True):
        q, k, v = (x.unflatten(1, (count, length)).transpose(0, 1) for x in qkv)
        if window is None or length <= window:
            output = attend(q, k, v, is_causal=causal)
        else:
            output = _windowed(q, k, v, window, causal=causal, attend=attend)
        out.append(flat(output))
    return rows_again(torch.cat(out, dim=1), boundaries.rows)


def _windowed(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    window: int,
    *,
    causal: bool,
    attend: Callable[..., Tensor],
) -> Tensor:
    """Attend one window of queries at a time, to the keys that any of them may see."""
    T, out = q_BHTK.shape[2], []
    for first in range(0, T, window):
        last = min(first + window, T)
        begin, end = max(0, first - window + 1), last if causal else min(T, last + window - 1)
        queries = torch.arange(first, last, device=q_BHTK.device)
        keys = torch.arange(begin, end, device=q_BHTK.device)
        mask = near(queries[:, None] - keys, window, causal=causal)
        q, k, v = q_BHTK[:, :, first:last], k_BHTK[:, :, begin:end], v_BHTK[:, :, begin:end]
        out.append(attend(q, k, v, attn_mask=mask))
    return torch.cat(out, dim=2)


def written_out(
    q_BHTK: Tensor,
    k_BHSK: Tensor,
    v_BHSK: Tensor,
    attn_mask: Tensor | None = None,
    *,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    in_16_bits: bool = False,
) -> Tensor:
    """Compute SDPA of the same arguments with products and a softmax in fp32, [B, H, T, K].

    With a `softcap` of c, scores become c * tanh(scores / c) before the mask. `in_16_bits` keeps
    products and scores in the dtype of the computation, as autocast does with these lines.

    For CPUs, whose SDPA kernel is slow for short rows, and slower in bf16: for 8 rows of 184
    tokens, 12 heads of 32, forward and backward take 13 ms with SDPA in float32 and 24 in bf16, and
    written out 12 and, in 16 bits, 6.5; for 32 rows of 24 tokens 2.9, 11, 1.3 and 0.7 (medians of
    9, 2 cores of an AMD EPYC with AVX-512, torch 2.13, 2026-11). All scores are in memory.
    `attn_mask` is bool.
    """
    (B, H, T, K), dtype = q_BHTK.shape, computed_in(q_BHTK)
    if enable_gqa:
        k_BHSK, v_BHSK = for_each_head(q_BHTK, k_BHSK, v_BHSK)
    with torch.autocast(q_BHTK.device.type, enabled=False):
        q_NTK, k_NSK, v_NSK = (
            x.to(dtype if in_16_bits else _wider(x)).reshape(B * H, -1, K)
            for x in (q_BHTK, k_BHSK, v_BHSK)
        )  # N: a head of a row
        S = k_NSK.shape[1]
        bias_NTS = q_NTK.new_zeros(1, 1, 1)
        if is_causal:
            bias_NTS = q_NTK.new_full((T, S), -torch.inf).triu_(1)
        if attn_mask is not None:
            bias = q_NTK.new_zeros(attn_mask.shape)
            bias.masked_fill_(~attn_mask, -torch.inf)
            bias_NTS = bias if bias.dim() == 2 else bias.expand(B, H, -1, -1).flatten(0, 1)
        by = K**-0.5 if scale is None else scale
        if softcap is None:
            scores_NTS = torch.baddbmm(bias_NTS, q_NTK, k_NSK.transpose(1, 2), alpha=by)
        else:
            scores_NTS = capped(torch.bmm(q_NTK, k_NSK.transpose(1, 2)) * by, softcap) + bias_NTS
        wide = torch.float32 if in_16_bits and S < _AT_ONCE else None
        shares_NTS = scores_NTS.softmax(-1, dtype=wide).to(v_NSK.dtype)
        shares_NTS = drop(shares_NTS, dropout_p) if dropout_p else shares_NTS
        return torch.bmm(shares_NTS, v_NSK).view(B, H, T, K).to(dtype)


def capped(scores: Tensor, softcap: float) -> Tensor:
    """Return softcap * tanh(scores / softcap), of the same shape."""
    return torch.tanh(scores / softcap) * softcap


def wide(
    q_BHTK: Tensor,
    k_BHSK: Tensor,
    v_BHSK: Tensor,
    attn_mask: Tensor | None = None,
    **how: Any,
) -> Tensor:
    """Compute SDPA of the same arguments in at least fp32; a CPU's kernel can be slower in bf16."""
    kind, dtype = q_BHTK.device.type, computed_in(q_BHTK)
    with torch.autocast(kind, enabled=False):
        q, k, v = (x.to(_wider(x)) for x in (q_BHTK, k_BHSK, v_BHSK))
        return functional.scaled_dot_product_attention(q, k, v, attn_mask, **how).to(dtype)


def computed_in(x: Tensor) -> torch.dtype:
    """Return the dtype in which an operator of half precision computes, with autocast in effect."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _wider(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def masked(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    mask_B1TT: Tensor,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attend where the mask is true, [B, H, T, K]: one call with all T x T products of each row."""
    return fused(
        q_BHTK,
        k_BHTK,
        v_BHTK,
        attn_mask=mask_B1TT,
        scale=scale,
        dropout_p=dropout,
        enable_gqa=q_BHTK.shape[1] != k_BHTK.shape[1],
    )


def block_mask(
    boundaries: Boundaries,
    *,
    causal: bool = True,
    window: int | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Return where a position (dim 2) may look (dim 3), [B, 1, T, T] bool; made once a batch."""
    of_BT = segments_of(boundaries, device=device)
    mask_BTT = of_BT[:, :, None] == of_BT[:, None, :]
    if window is None:
        return (mask_BTT.tril_() if causal else mask_BTT)[:, None]
    at_T = torch.arange(boundaries.width, device=of_BT.device)
    return mask_BTT.logical_and_(near(at_T[:, None] - at_T, window, causal=causal))[:, None]


def near(back: Tensor, window: int, *, causal: bool) -> Tensor:
    """Return whether a position may see the one `back` positions before it, bool of that shape."""
    return (back >= 0 if causal else back > -window) & (back < window)


def segments_of(boundaries: Boundaries, *, device: torch.device | None = None) -> Tensor:
    """Return the segment index of each position, [B, T] int32, without waiting for a device."""
    lengths = torch.tensor(boundaries.lengths)
    numbers = torch.arange(len(boundaries.lengths), dtype=torch.int32)
    of_N = numbers.repeat_interleave(lengths, output_size=boundaries.rows * boundaries.width)
    return of_N.view(boundaries.rows, boundaries.width).to(device or torch.device("cpu"))


def flat(x_BHTK: Tensor) -> Tensor:
    """[B, H, T, K] -> [H, N, K]."""
    return x_BHTK.transpose(0, 1).flatten(1, 2)


def rows_again(x_HNK: Tensor, rows: int) -> Tensor:
    """[H, N, K] -> [B, H, T, K] with B rows."""
    H, _, K = x_HNK.shape
    return x_HNK.view(H, rows, -1, K).transpose(0, 1)
