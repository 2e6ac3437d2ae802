"""Whether a later token changes an earlier output of a model, found by changing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.internal import hide
from hotloop.probe.calls import tensors
from hotloop.probe.perturb import NOISE, moved

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_causal"]

_SHORTEST = 4  # tokens


def is_causal(model: Any, args: Any, kwargs: Any) -> bool | None:
    """Return whether no later token changes an earlier output; None where it cannot be told.

    The first integer [B, T] argument holds the tokens; an output of shape [B, T, ...] is compared.
    The model runs three times (probe/perturb.py).
    """
    found = [tensor for tensor in tensors((args, kwargs)) if _is_tokens(tensor)]
    if not found or found[0].shape[1] < _SHORTEST:
        return None
    tokens = next((tensor for tensor in found if tensor.unique().numel() > 2), found[0])  # no mask
    at = tokens.shape[1] * 3 // 4
    other = _other(tokens, at)
    if other is None:
        return None
    here = tokens[:, at]
    far = moved(model, lambda: _run(model, args, kwargs, tokens), [(here, here.new_tensor(other))])
    if far is None:
        return None
    if float(far[:, :at].max()) > NOISE:
        return False
    return True if float(far[:, at:].max()) > NOISE else None


def _is_tokens(tensor: Any) -> bool:
    import torch

    return tensor.dtype in (torch.int64, torch.int32) and tensor.dim() == 2


def _run(model: Any, args: Any, kwargs: Any, tokens: Any) -> Any:
    """Return the first output of shape [B, T, ...] with B and T of the tokens."""
    return next(_alike(model(*args, **kwargs), tokens), None)


def _alike(output: Any, tokens: Any) -> Iterator[Any]:
    for tensor in tensors(output):
        if tensor.dim() >= 3 and tensor.shape[:2] == tokens.shape and tensor.is_floating_point():
            yield tensor


def _other(tokens: Any, at: int) -> Any:
    """Return another token that the batch holds, for each row; None where all are equal."""
    here = tokens[:, at]
    others = [int(token) for token in tokens.unique() if (token != here).all()]
    return others[0] if others else None


hide(globals())
