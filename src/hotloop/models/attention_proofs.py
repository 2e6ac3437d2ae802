"""Proves before step 1 that a model looks where it is said to: by changing tokens, not by asking.

Each runs the model on a few tokens, in evaluation mode, and leaves modes and random streams as they
were. Outputs that move by less than `models.perturb.NOISE` of the largest count as unmoved.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from hotloop.core.document_boundaries import Boundaries, bucket
from hotloop.core.errors import DeviceError
from hotloop.models.attention.in_transformers import layout_of
from hotloop.models.perturb import NOISE, moved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn

    from hotloop.models.backbone import Backbone
    from hotloop.models.causal_lm import CausalLm

__all__ = ["head_is_whole", "keeps_apart", "sees_ahead"]

_TOKENS = 8
_ROUNDING = 16  # in units of the dtype's rounding: what the order of sums may make


def sees_ahead(backbone: Backbone) -> bool:
    """Return whether a later token changes an earlier output: a bidirectional model's must."""
    ids_BT = _tokens(backbone)
    far = _moved(backbone, {"input_ids": ids_BT}, ids_BT[:, -1:])
    return float(far[:, :-1].max()) > NOISE


def keeps_apart(backbone: Backbone) -> bool:
    """Return whether two documents in one row get what each gets alone, and nothing of the other.

    False: packed and flat batches would train something else.
    """
    ids_BT, first = _tokens(backbone), 3
    lengths = first, _TOKENS - first
    starts = torch.tensor((0, first, _TOKENS), dtype=torch.int32)
    at = Boundaries(
        cu_seqlens=starts,
        lengths=lengths,
        max_seqlen=bucket(max(lengths)),
        rows=1,
        width=_TOKENS,
    ).to(ids_BT.device)
    places = torch.cat([torch.arange(length) for length in lengths])[None].to(ids_BT.device)
    batch = {"input_ids": ids_BT, "boundaries": at, "position_ids": places}
    if float(_moved(backbone, batch, ids_BT[:, :first])[:, first:].max()) > 0:
        return False
    together = _quietly(backbone, partial(backbone, batch))
    alone = [
        _quietly(backbone, partial(backbone, {"input_ids": part}))
        for part in torch.split(ids_BT, list(lengths), dim=1)
    ]
    return _are_close(together, torch.cat(alone, dim=1))


def head_is_whole(model: CausalLm) -> bool:
    """Return whether transformers makes the same logits: nothing stands between head and loss."""
    backbone = model.backbone
    batch = {"input_ids": _tokens(backbone)}
    layout = layout_of(batch, isolation=backbone.isolation, looks=backbone.looks)

    def theirs() -> Tensor:
        return backbone.model(**batch, use_cache=False, hotloop=layout).logits  # type: ignore[no-any-return]

    return _are_close(_quietly(model, lambda: model.logits(batch)), _quietly(model, theirs))


def _tokens(backbone: Backbone) -> Tensor:
    """Return ids that differ, [1, _TOKENS], where the model is."""
    device = next(backbone.parameters()).device
    return (1 + torch.arange(_TOKENS, device=device) * 7)[None] % backbone.vocabulary


def _moved(backbone: Backbone, batch: Mapping[str, Any], part: Tensor) -> Tensor:
    """Return how far each output moves when a part of the tokens is others, [1, T, D]."""
    others = (part + backbone.vocabulary // 2) % backbone.vocabulary
    far: Tensor | None = moved(backbone, lambda: backbone(batch), [(part, others)])
    if far is None:
        raise DeviceError(
            "the model's output differs from one call to the next, so what its tokens see cannot "
            "be proved: look for what is random in evaluation mode"
        )
    return far


def _quietly(model: nn.Module, run: Callable[[], Tensor]) -> Tensor:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return run()
    finally:
        for module, training in modes:
            module.training = training


def _are_close(one: Tensor, other: Tensor) -> bool:
    rounding = max(NOISE, _ROUNDING * torch.finfo(one.dtype).eps)
    apart = (one.float() - other.float()).abs().max()
    return bool(apart <= rounding * other.float().abs().max())
