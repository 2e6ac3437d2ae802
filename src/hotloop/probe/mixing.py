"""Whether a row of a batch changes what a model gives for another row, found by changing one."""

from __future__ import annotations

from typing import Any

from hotloop.core.internal import hide
from hotloop.probe.calls import tensors
from hotloop.probe.perturb import NOISE, moved

__all__ = ["mixes_rows", "sequence_first"]


def mixes_rows(model: Any, args: Any, kwargs: Any) -> bool | None:
    """Return whether the first of two rows changes the output for the second; None: cannot be told.

    All tensors of two rows get the second row in place of the first. The model runs three times
    (probe/perturb.py).
    """
    import torch

    rows = [tensor for tensor in tensors((args, kwargs)) if tensor.dim() and len(tensor) == 2]
    if all(torch.equal(*tensor) for tensor in rows):
        return None
    far = moved(model, lambda: _run(model, args, kwargs), [(t[0], t[1]) for t in rows])
    return None if far is None else float(far[1].max()) > NOISE


def _run(model: Any, args: Any, kwargs: Any) -> Any:
    """Return the first floating output of two rows."""
    found = (
        tensor
        for tensor in tensors(model(*args, **kwargs))
        if tensor.dim() and len(tensor) == 2 and tensor.is_floating_point()
    )
    return next(found, None)


def sequence_first(model: Any) -> tuple[str, ...]:
    """Return the names of the modules that take the first dimension for the sequence."""
    from torch import nn

    kinds = (nn.MultiheadAttention, nn.RNNBase)
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, kinds) and not module.batch_first
    )


hide(globals())
