"""Attention over packed rows on a CUDA GPU: varlen_attn, FlexAttention or the efficient kernel.

Dims: B rows, T positions, H heads, K head width, N = B * T positions of the batch as one row.
Torch itself is asked whether a function is available, not its version. The functions that are
called are seams: this machine may have no GPU.
Source: https://docs.pytorch.org/docs/stable/nn.attention.html (torch 2.13, 2026-11). The efficient
kernel is the one that SDPA calls where there is no FlashAttention; it takes cu_seqlens, but has no
public function: aten/src/ATen/native/transformers/cuda/attention.cu (torch 2.13, 2026-11).
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from hotloop.models.attention.documents import (
    capped,
    computed_in,
    flat,
    for_each_head,
    near,
    rows_again,
    segments_of,
)
from hotloop.models.attention.efficient_op import OPERATOR

if TYPE_CHECKING:
    from torch import Tensor

    from hotloop.core.document_boundaries import Boundaries

__all__ = [
    "efficient",
    "efficient_kernel",
    "flex",
    "flex_blocks",
    "flex_kernels",
    "varlen",
    "varlen_kernel",
    "way_of",
    "why_no_efficient",
    "why_no_flex",
    "why_no_varlen",
]

_HALF = (torch.float16, torch.bfloat16)
_ALIGNED = 16  # bytes of which the efficient kernel wants the width of a head to be a multiple
_CAUSAL = 1  # its custom_mask_type: causal from the first position of each segment
# Heads that are wider need more than the 99 KB of shared memory of a block on other GPUs:
# https://github.com/pytorch/pytorch/issues/133254 (2026-11); capabilities with 163 KB or more:
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/ "Technical Specifications" (2026-11)
_WIDE, _LARGE_SHARED = 128, ((8, 0), (8, 7), (9, 0), (10, 0), (10, 3))


Capability = Callable[[torch.device], tuple[int, int]]


def why_no_varlen(
    device: torch.device,
    dtype: torch.dtype,
    *,
    window: int | None = None,
    dropout: float = 0.0,
    capability: Capability = torch.cuda.get_device_capability,
) -> str | None:
    """Return why varlen_attn cannot be used, or None."""
    if device.type != "cuda":
        return f"varlen_attn is for CUDA, and this is a {device.type} device"
    if (why := _too_old("varlen_attn", device, capability)) is not None:
        return why
    if dtype not in _HALF:
        return f"varlen_attn takes float16 and bfloat16, not {dtype}"
    if dropout:
        return "varlen_attn has no dropout"
    kernel = varlen_kernel()
    if kernel is None:
        return "this torch has no torch.nn.attention.varlen"
    if window is not None and "window_size" not in inspect.signature(kernel).parameters:
        return "varlen_attn of this torch has no window"
    return None


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def way_of(
    device: torch.device,
    dtype: torch.dtype,
    computed: torch.dtype,
    width: int,
    window: int | None,
    dropout: float,
) -> str | None:
    """Return the kernel that reads on the GPU alone how long documents are; None if there is none.

    `computed` is the dtype under autocast, `width` that of a head.
    """
    if why_no_varlen(device, dtype, window=window, dropout=dropout) is None:
        return "varlen"
    if why_no_efficient(device, computed, width=width, window=window) is None:
        return "efficient"
    return None


def why_no_flex(
    device: torch.device,
    *,
    dropout: float = 0.0,
    width: int = 0,
    capability: Capability = torch.cuda.get_device_capability,
) -> str | None:
    """Return why FlexAttention cannot be used to train heads of a width, or None."""
    if device.type != "cuda":
        return f"FlexAttention has no backward pass on a {device.type} device"
    if (why := _too_old("FlexAttention", device, capability)) is not None:
        return why
    if width > _WIDE and capability(device) not in _LARGE_SHARED:
        return f"FlexAttention's backward pass of heads of {width} does not fit into this GPU"
    if dropout:
        return "FlexAttention has no dropout"
    module = importlib.util.find_spec("torch.nn.attention.flex_attention")
    return None if module else "this torch has no torch.nn.attention.flex_attention"


def why_no_efficient(
    device: torch.device,
    dtype: torch.dtype,
    *,
    width: int,
    window: int | None = None,
    capability: Capability = torch.cuda.get_device_capability,
) -> str | None:
    """Return why the efficient kernel cannot be used to train heads of a width, or None."""
    if device.type != "cuda":
        return f"the efficient kernel is for CUDA, and this is a {device.type} device"
    if efficient_kernel() is None:
        return "this torch has no _efficient_attention_forward"
    if dtype not in (*_HALF, torch.float32):
        return f"the efficient kernel takes float32, float16 and bfloat16, not {dtype}"
    if dtype == torch.bfloat16 and capability(device)[0] < 8:
        return "the efficient kernel takes bfloat16 from sm80 on"
    if width * dtype.itemsize % _ALIGNED:
        return f"the efficient kernel takes heads of a multiple of {_ALIGNED} bytes"
    if window is not None:  # the formula of its gradient in derivatives.yaml has none
        return "the efficient kernel has no window in its backward pass"
    return None


def _too_old(function: str, device: torch.device, capability: Capability) -> str | None:
    """Return why a GPU supports neither function; both need features of Ampere."""
    major, minor = capability(device)
    return (
        None
        if major >= 8
        else f"{function} is for GPUs from sm80 on, this one has sm{major}{minor}"
    )


def varlen_kernel() -> Callable[..., Any] | None:
    """Return torch's varlen_attn if it has one."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn  # type: ignore[no-any-return, unused-ignore]


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def _parameters(kernel: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(kernel).parameters)


def efficient_kernel() -> Callable[..., Any] | None:
    """Return the operator of torch that attends in segments without FlashAttention, or None."""
    return getattr(torch.ops.aten, "_efficient_attention_forward", None)


@functools.cache
def flex_kernels() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """Return create_block_mask and the compiled flex_attention if torch has them.

    Compiling imports the compiler, which takes seconds.
    """
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError:
        return None
    return create_block_mask, torch.compile(flex_attention)


def varlen(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    boundaries: Boundaries,
    *,
    causal: bool = True,
    scale: float | None = None,
    window: int | None = None,
    kernel: Callable[..., Any],
) -> Tensor:
    """Attend in each segment with `varlen_kernel()`, [B, H, T, K]; boundaries on the device."""
    known = _parameters(kernel)
    options: dict[str, Any] = {} if scale is None else {"scale": scale}
    if window is not None:
        options["window_size"] = (window - 1, 0 if causal else window - 1)
    elif causal:  # torch 2.10 has is_causal, later versions a window
        options |= {"is_causal": True} if "is_causal" in known else {"window_size": (-1, 0)}
    if q_BHTK.shape[1] != k_BHTK.shape[1] and "enable_gqa" in known:
        options["enable_gqa"] = True  # torch 2.9 to 2.11 allow fewer key heads without it
    if "num_splits" in known:
        options["num_splits"] = 1  # else the order of sums depends on the longest document
    starts, longest = boundaries.cu_seqlens, boundaries.max_seqlen
    q_NHK, k_NHK, v_NHK = (flat(x).transpose(0, 1) for x in (q_BHTK, k_BHTK, v_BHTK))
    out_NHK = kernel(q_NHK, k_NHK, v_NHK, starts, starts, longest, longest, **options)
    return rows_again(out_NHK.transpose(0, 1), q_BHTK.shape[0])


def efficient(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    boundaries: Boundaries,
    *,
    causal: bool = True,
    scale: float | None = None,
    dropout: float = 0.0,
    kernel: Callable[..., Any],
) -> Tensor:
    """Attend in each segment with `efficient_kernel()`, [B, H, T, K]; boundaries on the device."""
    dtype = computed_in(q_BHTK)
    if q_BHTK.shape[1] != k_BHTK.shape[1]:  # it takes as many heads of keys as of queries
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BHTK, v_BHTK)
    q_1NHK, k_1NHK, v_1NHK = (
        flat(x.to(dtype)).transpose(0, 1)[None] for x in (q_BHTK, k_BHTK, v_BHTK)
    )
    starts = boundaries.cu_seqlens
    longest = min(boundaries.max_seqlen, q_1NHK.shape[1])  # it takes no more than all tokens
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in (q_1NHK, k_1NHK, v_1NHK))
    mask, qkv = _CAUSAL if causal else 0, (q_1NHK, k_1NHK, v_1NHK)
    if torch.compiler.is_compiling() and not dropout:
        out_1NHK = OPERATOR(*qkv, starts, longest, mask, scale)[0]
    else:
        ends = starts, starts, longest, longest
        out_1NHK = kernel(*qkv, None, *ends, dropout, mask, learns, scale=scale)[0]
    return rows_again(out_1NHK[0].transpose(0, 1), q_BHTK.shape[0]).to(q_BHTK.dtype)


def flex(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    blocks: Any,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    kernel: Callable[..., Any],
) -> Tensor:
    """Attend where a block mask of `flex_blocks` allows it, [B, H, T, K]."""
    shares = q_BHTK.shape[1] != k_BHTK.shape[1]
    options: dict[str, Any] = {} if softcap is None else {"score_mod": _capping(softcap)}
    out: Tensor = kernel(
        q_BHTK, k_BHTK, v_BHTK, block_mask=blocks, scale=scale, enable_gqa=shares, **options
    )
    return out


@functools.cache
def _capping(softcap: float) -> Callable[..., Tensor]:
    """Return FlexAttention's change of scores, the same function for the same soft cap."""

    def cap(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        del b, h, q, k
        return capped(score, softcap)

    return cap


def flex_blocks(
    boundaries: Boundaries,
    *,
    causal: bool = True,
    window: int | None = None,
    make: Callable[..., Any],
) -> Any:
    """Return the block mask of a batch from create_block_mask; one serves all layers."""
    device = boundaries.cu_seqlens.device
    of_BT = segments_of(boundaries, device=device)

    def may_look(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        del h
        same = of_BT[b, q] == of_BT[b, k]
        if window is not None:
            return same & near(q - k, window, causal=causal)
        return same & (q >= k) if causal else same

    rows, width = boundaries.rows, boundaries.width
    return make(may_look, rows, None, width, width, device=device)
