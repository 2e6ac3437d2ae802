"""Attention inside transformers' models: documents are isolated, and needless masks avoided.

Dims: B rows, T positions, H heads, K head width.
transformers looks up an attention function by its name and passes on to it the arguments of its
model's call. Under our name it makes no masks itself (its table of masks has no such entry), and
each call passes the `AttentionLayout` of the batch. Its own attention leaks between packed
documents unless attention_mask is None and use_cache False, and RoBERTa's never isolates them
(5.23, 2026-11). Padding comes after the tokens of a row: under a causal mask no token sees it, so
no mask is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn import functional

from hotloop.core.errors import ConfigError
from hotloop.models.attention.documents import block_mask, capped, near

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor, nn

    from hotloop.core.document_boundaries import Boundaries
    from hotloop.models.attention.kernel_choice import Isolation

__all__ = ["NAME", "AttentionLayout", "attend", "layout_of", "looks_of", "register"]

NAME: Final = "hotloop"
_NOT_GIVEN: Final = -1  # a model that does not say whether a layer has a window
_UNKNOWN: Final = (  # arguments of attention functions that this one does not support
    ("s_aux", "has attention sinks"),
    ("position_bias", "adds a bias to its attention scores"),
    ("head_mask", "masks heads"),
    ("cache", "reads a paged cache"),
    ("encoder_hidden_states", "attends to another sequence"),
)
_LAYERS: Final = frozenset(("full_attention", "sliding_attention"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionLayout:
    """How to read the rows of one batch, for every layer."""

    isolation: Isolation
    is_naive: bool = False  # True: plain products and softmax, as a comparison
    boundaries: Boundaries | None = None  # if documents share a row
    # (causal, window) -> the mask, [B or 1, 1, T or 1, T] bool; None: no mask is needed
    masks: Mapping[tuple[bool, int | None], Tensor | None] = field(default_factory=dict)


def layout_of(
    batch: Mapping[str, Any],
    *,
    isolation: Isolation,
    looks: Iterable[tuple[bool, int | None]],
    is_naive: bool = False,
) -> AttentionLayout:
    """Return the layout of a batch: its boundaries, or the masks that its padding needs.

    `looks` are all (causal, window) of the model's layers (`looks_of`).
    """
    if (boundaries := batch.get("boundaries")) is not None:
        return AttentionLayout(isolation=isolation, boundaries=boundaries, is_naive=is_naive)
    real_BT, width = batch.get("attention_mask"), batch["input_ids"].shape[1]
    device = batch["input_ids"].device
    short = {(causal, _shorter(window, width)) for causal, window in looks}
    masks = {
        (causal, window): _mask(real_BT, width, device, causal=causal, window=window)
        for causal, window in short
    }
    return AttentionLayout(isolation=isolation, masks=masks, is_naive=is_naive)


def _shorter(window: int | None, width: int) -> int | None:
    """Return the window if rows of that width are longer than it, else None."""
    return window if window is not None and window < width else None


def _mask(
    real_BT: Tensor | None, width: int, device: torch.device, *, causal: bool, window: int | None
) -> Tensor | None:
    if window is None:
        return None if causal or real_BT is None else real_BT.bool()[:, None, None]
    at_T = torch.arange(width, device=device)
    back_TT = at_T[:, None] - at_T
    mask_TT = near(back_TT, window, causal=causal)
    if causal or real_BT is None:
        return mask_TT[None, None]
    # Padding far from any token sees itself, because the softmax of nothing would be NaN.
    return mask_TT & (real_BT.bool()[:, None, None] | (back_TT == 0))


def looks_of(model: nn.Module) -> set[tuple[bool, int | None]]:
    """Return the (causal, window) of all attention layers of a transformers model.

    Raises ConfigError for a model with an attention pattern that this attention does not know.
    """
    config: Any = model.config
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - _LAYERS or getattr(config, "attention_chunk_size", None):
        unknown = ", ".join(sorted(kinds - _LAYERS)) or "chunked_attention"
        raise ConfigError(
            f"{config.model_type} has layers of {unknown}, which hotloop cannot train"
        )
    modules = [module for module in model.modules() if isinstance(_causal(module), bool)]
    if not modules:
        raise ConfigError(f"{config.model_type} does not say which of its modules attend")
    windows = {getattr(module, "sliding_window", None) for module in modules}
    windows |= {None, getattr(config, "sliding_window", None)}
    config_causal = getattr(config, "is_causal", None)  # overrides the modules
    return {
        (causal, _reach(window, config, causal=causal))
        for causal in (
            {_causal(module) for module in modules} if config_causal is None else {config_causal}
        )
        for window in windows
    }


def _causal(module: nn.Module) -> Any:
    return getattr(module, "is_causal", None)


def _reach(window: int | None, config: Any, *, causal: bool) -> int | None:
    """Return a window as `attention.documents` counts it.

    transformers counts one more position on either side if a decoder's config says that it is not
    causal (masking_utils, 5.23).
    """
    wider = not causal and getattr(config, "is_causal", True) is False
    return window + 1 if window is not None and wider else window


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float | None = None,
    sliding_window: int | None = _NOT_GIVEN,
    is_causal: bool | None = None,
    softcap: float | None = None,
    hotloop: AttentionLayout | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attend by the batch's layout: [B, H, T, K] each -> [B, T, H, K], and no scores.

    The signature is transformers'. Raises ConfigError for arguments that this attention does not
    support.
    """
    config = module.config
    if hotloop is None or attention_mask is not None:
        raise ConfigError(
            f"{config.model_type} does not hand on to its attention what it was called with, so "
            "documents cannot be kept apart in it: take another architecture"
        )
    for name, does in _UNKNOWN:
        if more.get(name) is not None:
            raise ConfigError(f"{config.model_type} {does}, which hotloop's attention cannot do")
    if sliding_window == _NOT_GIVEN:
        sliding_window = None
        if getattr(config, "sliding_window", None) is not None:
            raise ConfigError(
                f"{config.model_type} has sliding_window={config.sliding_window} in its config, "
                "but does not say so to its attention: set it to null if the model has none"
            )
    causal = module.is_causal if is_causal is None else is_causal
    out_BHTK = _attended(
        query,
        key,
        value,
        hotloop,
        causal=causal,
        window=_reach(sliding_window, config, causal=causal),
        scale=scaling,
        dropout=dropout or 0.0,
        softcap=softcap,
    )
    return out_BHTK.transpose(1, 2).contiguous(), None


def _attended(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    layout: AttentionLayout,
    **how: Any,  # causal, window, scale, dropout and softcap
) -> Tensor:
    if layout.is_naive:
        return _written_out(q_BHTK, k_BHTK, v_BHTK, layout, **how)
    if layout.boundaries is not None:
        kind = q_BHTK.device.type
        if torch.is_autocast_enabled(kind):  # as SDPA does, because rotary positions widen q and k
            dtype = torch.get_autocast_dtype(kind)
            q_BHTK, k_BHTK, v_BHTK = (x.to(dtype) for x in (q_BHTK, k_BHTK, v_BHTK))
        inside = layout.isolation.attend
        if torch.compiler.is_compiling():
            seen = {"window": how["window"], "dropout": how["dropout"]}
            way = None
            if how["softcap"] is None:
                way = layout.isolation.way_in_trace(q_BHTK, layout.boundaries, **seen)
            if way is not None:
                return inside(q_BHTK, k_BHTK, v_BHTK, layout.boundaries, **how, way=way)
            inside = torch._dynamo.disable(inside)  # type: ignore[no-untyped-call]
        return inside(q_BHTK, k_BHTK, v_BHTK, layout.boundaries, **how)
    mask = layout.masks[how["causal"], _shorter(how.pop("window"), q_BHTK.shape[2])]
    return layout.isolation.attend_rows(q_BHTK, k_BHTK, v_BHTK, mask, **how)


def _written_out(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    layout: AttentionLayout,
    *,
    causal: bool,
    window: int | None,
    scale: float | None,
    dropout: float,
    softcap: float | None,
) -> Tensor:
    """Return dropout(softmax(QK^T * scale)) V with all scores in memory."""
    width, shares = q_BHTK.shape[2], q_BHTK.shape[1] // k_BHTK.shape[1]
    mask: Tensor | None
    if layout.boundaries is not None:
        mask = block_mask(layout.boundaries, causal=causal, window=window, device=q_BHTK.device)
    elif (mask := layout.masks[causal, _shorter(window, width)]) is None and causal:
        mask = torch.ones(width, width, dtype=torch.bool, device=q_BHTK.device).tril()
    if shares > 1:
        k_BHTK, v_BHTK = (x.repeat_interleave(shares, dim=1) for x in (k_BHTK, v_BHTK))
    scores_BHTT = q_BHTK @ k_BHTK.transpose(-1, -2)
    scores_BHTT = scores_BHTT.float() * (q_BHTK.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores_BHTT = capped(scores_BHTT, softcap)
    if mask is not None:
        scores_BHTT = scores_BHTT.masked_fill(~mask, -torch.inf)
    return functional.dropout(scores_BHTT.softmax(-1).to(v_BHTK.dtype), dropout) @ v_BHTK


def register() -> None:
    """Register this attention with transformers; may be called again."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)
