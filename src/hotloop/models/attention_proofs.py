"""Prove before step 1 which tokens a model attends to, by changing tokens and comparing outputs.

Each proof runs the model on a few tokens, in evaluation mode, and restores modes and random
generators. Outputs that change by less than `models.perturb.NOISE` of the largest count as
unchanged.
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
_ROUNDING = 16  # times the dtype's epsilon: the error that another order of sums may make


def sees_ahead(backbone: Backbone) -> bool:
    """Return whether a later token changes an earlier output, as in a bidirectional model."""
    ids_BT = _tokens(backbone)
    far = _moved(backbone, {"input_ids": ids_BT}, ids_BT[:, -1:])
    return float(far[:, :-1].max()) > NOISE


def keeps_apart(backbone: Backbone) -> bool:
    """Return whether two documents in one row have the outputs that each would have alone.

    If False, training on packed or flat batches would train something else.
    """
    ids_BT, first = _tokens(backbone), 3
    lengths = first, _TOKENS - first
    starts = torch.tensor((0, first, _TOKENS), dtype=torch.int32)
    boundaries = Boundaries(
        cu_seqlens=starts,
        lengths=lengths,
        max_seqlen=bucket(max(lengths)),
        rows=1,
        width=_TOKENS,
    ).to(ids_BT.device)
    positions = torch.cat([torch.arange(length) for length in lengths])[None].to(ids_BT.device)
    batch = {"input_ids": ids_BT, "boundaries": boundaries, "position_ids": positions}
    if float(_moved(backbone, batch, ids_BT[:, :first])[:, first:].max()) > 0:
        return False
    together = _in_evaluation(backbone, partial(backbone, batch))
    alone = [
        _in_evaluation(backbone, partial(backbone, {"input_ids": part}))
        for part in torch.split(ids_BT, list(lengths), dim=1)
    ]
    return _are_close(together, torch.cat(alone, dim=1))


def head_is_whole(model: CausalLm) -> bool:
    """Return whether transformers makes the same logits: hotloop omits no step after the head."""
    backbone = model.backbone
    batch = {"input_ids": _tokens(backbone)}
    layout = layout_of(batch, isolation=backbone.isolation, looks=backbone.looks)

    def theirs() -> Tensor:
        return backbone.model(**batch, use_cache=False, hotloop=layout).logits  # type: ignore[no-any-return]

    return _are_close(
        _in_evaluation(model, lambda: model.logits(batch)), _in_evaluation(model, theirs)
    )


def _tokens(backbone: Backbone) -> Tensor:
    """Return distinct ids, [1, _TOKENS], on the model's device."""
    device = next(backbone.parameters()).device
    return (1 + torch.arange(_TOKENS, device=device) * 7)[None] % backbone.vocabulary


def _moved(backbone: Backbone, batch: Mapping[str, Any], part: Tensor) -> Tensor:
    """Return how much each output changes when a part of the tokens is replaced, [1, T, D]."""
    replacements = (part + backbone.vocabulary // 2) % backbone.vocabulary
    far: Tensor | None = moved(backbone, lambda: backbone(batch), [(part, replacements)])
    if far is None:
        raise DeviceError(
            "the model's output differs from one call to the next, so what its tokens see cannot "
            "be proved: look for what is random in evaluation mode"
        )
    return far


def _in_evaluation(model: nn.Module, run: Callable[[], Tensor]) -> Tensor:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return run()
    finally:
        for module, training in modes:
            module.training = training


def _are_close(first: Tensor, second: Tensor) -> bool:
    rounding = max(NOISE, _ROUNDING * torch.finfo(first.dtype).eps)
    apart = (first.float() - second.float()).abs().max()
    return bool(apart <= rounding * second.float().abs().max())
