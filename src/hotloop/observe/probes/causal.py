"""Whether a later token changes an earlier output of a model, tested by changing one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hotloop.models.perturb import NOISE, inner_outputs, moved
from hotloop.observe.probes.module_calls import tensors
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_causal"]

_SHORTEST = 4  # tokens
_LARGEST = 1 << 24  # numbers in a module's output that is compared


def is_causal(model: Any, args: Any, kwargs: Any) -> bool | None:
    """Return whether no later token changes an earlier output; None where that is unknown.

    The first integer argument of shape [B, T] holds the tokens. An output of shape [B, T, ...] is
    compared or, where the model has none because it pools, the outputs of its modules. The model
    runs three times (models/perturb.py).
    """
    token_tensors = [tensor for tensor in tensors((args, kwargs)) if _is_tokens(tensor)]
    if not token_tensors or token_tensors[0].shape[1] < _SHORTEST:
        return None
    no_masks = (tensor for tensor in token_tensors if tensor.unique().numel() > 2)
    tokens = next(no_masks, token_tensors[0])
    position = tokens.shape[1] * 3 // 4
    other = _other(tokens, position)
    if other is None:
        return None
    here = tokens[:, position]
    run = _Run(model, args, kwargs, tokens)
    far = moved(model, run, [(here, here.new_tensor(other))])
    if far is None:
        return None
    if float(far[:, :position].max()) > NOISE:
        return False
    # Inside a model, an output that depends only on its own token (an embedding) proves nothing.
    return True if float(far[:, position + run.is_inside :].max()) > NOISE else None


def _is_tokens(tensor: Any) -> bool:
    import torch

    return tensor.dtype in (torch.int64, torch.int32) and tensor.dim() == 2


class _Run:
    """Calls a model and returns an output for each token."""

    def __init__(self, model: Any, args: Any, kwargs: Any, tokens: Any) -> None:
        self._model, self._args, self._kwargs, self._tokens = model, args, kwargs, tokens
        self.is_inside = 0  # 1: the model has no such output, and those of its modules are returned
        self._sizes: Any = None  # of each module's output, in the first pass

    def __call__(self) -> Any:
        """Return the first output of shape [B, T, ...], else [B, T, C], one number per module
        output.

        B and T are those of the tokens.
        """
        import torch

        inside: list[Any] = []
        with inner_outputs(self._model, lambda _, output: inside.extend(self._numbers(output))):
            outermost = self._model(*self._args, **self._kwargs)
        direct = next(self._alike(outermost), None)
        if direct is not None:
            return direct
        if not inside:
            return None
        self.is_inside = 1
        numbers = torch.stack(inside, dim=-1)
        if self._sizes is None:
            self._sizes = numbers.abs().amax(dim=(0, 1))
        if self._sizes.shape != numbers.shape[-1:]:  # another path in each pass
            return None
        return numbers / torch.where(self._sizes > 0, self._sizes, 1.0)

    def _alike(self, output: Any) -> Iterator[Any]:
        for tensor in tensors(output):
            shape = tensor.shape[:2]
            if tensor.dim() >= 3 and shape == self._tokens.shape and tensor.is_floating_point():
                yield tensor

    def _numbers(self, output: Any) -> Iterator[Any]:
        """Yield [B, T]: the numbers of each position, summed with unequal weights.

        An unweighted sum would always be 0 after a layer norm.
        """
        for tensor in self._alike(output):
            if tensor.numel() <= _LARGEST:
                flat = tensor.flatten(2).float()
                yield flat @ _uneven(flat.shape[2], like=flat)


def _uneven(length: int, *, like: Any) -> Any:
    import torch

    positions = torch.arange(length, dtype=like.dtype, device=like.device)
    return torch.cos(positions * math.sqrt(2) + 1)


def _other(tokens: Any, position: int) -> Any:
    """Return a token of the batch that differs from that of each row at `position`, or None."""
    here = tokens[:, position]
    others = [int(token) for token in tokens.unique() if (token != here).all()]
    return others[0] if others else None


hide(globals())
