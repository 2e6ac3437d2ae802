"""Whether a row of a batch changes what a model gives for another row, found by changing one."""

from __future__ import annotations

from typing import Any

from hotloop.probe.calls import tensors
from hotloop.probe.causal import NOISE, undisturbed

__all__ = ["mixes_rows", "sequence_first"]


def mixes_rows(model: Any, args: Any, kwargs: Any) -> bool | None:
    """Return whether the first of two rows changes the output for the second; None: cannot be told.

    All tensors of two rows get the second row in place of the first, and are put back. The model
    runs three times, without gradients, in evaluation mode and with the generators kept.
    """
    import torch

    rows = [tensor for tensor in tensors((args, kwargs)) if tensor.dim() and len(tensor) == 2]
    if not any(not torch.equal(*tensor) for tensor in rows):
        return None
    with undisturbed(model, rows[0]):
        first, second = _run(model, args, kwargs), _run(model, args, kwargs)
        if first is None or second is None or not torch.equal(first, second):
            return None
        before = [tensor[0].clone() for tensor in rows]
        for tensor in rows:
            tensor[0] = tensor[1]
        third = _run(model, args, kwargs)
        for tensor, row in zip(rows, before, strict=True):
            tensor[0] = row
    if third is None or third.shape != first.shape:
        return None
    moved, largest = (third[1] - first[1]).abs().max(), first.abs().max()
    return bool(float(moved) > NOISE * (float(largest) or 1.0))


def _run(model: Any, args: Any, kwargs: Any) -> Any:
    """Return the first floating output of two rows, in float32."""
    found = (
        tensor
        for tensor in tensors(model(*args, **kwargs))
        if tensor.dim() and len(tensor) == 2 and tensor.is_floating_point()
    )
    output = next(found, None)
    return None if output is None else output.float()


def sequence_first(model: Any) -> tuple[str, ...]:
    """Return the names of the modules that take the first dimension for the sequence."""
    from torch import nn

    kinds = (nn.MultiheadAttention, nn.RNNBase)
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, kinds) and not module.batch_first
    )
