"""Whether a later token changes an earlier output of a model, found by changing one."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from hotloop.probe.calls import tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NOISE", "is_causal", "undisturbed"]

NOISE = 1e-4  # of the largest output: below it is rounding
_SHORTEST = 4  # tokens


def is_causal(model: Any, args: Any, kwargs: Any) -> bool | None:
    """Return whether no later token changes an earlier output; None where it cannot be told.

    The first integer [B, T] argument holds the tokens; an output of shape [B, T, ...] is compared.
    The model runs three times, without gradients, in evaluation mode and with the random
    generators kept; its mode is put back.
    """
    import torch

    found = [tensor for tensor in tensors((args, kwargs)) if _is_tokens(tensor)]
    if not found or found[0].shape[1] < _SHORTEST:
        return None
    tokens = next((tensor for tensor in found if tensor.unique().numel() > 2), found[0])  # no mask
    at = tokens.shape[1] * 3 // 4
    with undisturbed(model, tokens):
        first, second = _run(model, args, kwargs, tokens), _run(model, args, kwargs, tokens)
        other = _other(tokens, at)
        if first is None or second is None or other is None:
            return None
        if not torch.equal(first, second):  # it draws numbers in evaluation mode as well
            return None
        before = tokens[:, at].clone()
        tokens[:, at] = other
        third = _run(model, args, kwargs, tokens)
        tokens[:, at] = before
    if third is None or third.shape != first.shape:
        return None
    moved = (third.float() - first.float()).abs()
    largest = float(first.float().abs().max()) or 1.0
    if float(moved[:, :at].max()) > NOISE * largest:
        return False
    return True if float(moved[:, at:].max()) > NOISE * largest else None


@contextlib.contextmanager
def undisturbed(model: Any, given: Any) -> Iterator[None]:
    """Run `model` on a tensor `given` in evaluation mode, and leave it and the generators as is."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    with torch.random.fork_rng([given.device] if given.is_cuda else []), torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


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
