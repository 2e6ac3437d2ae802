"""Whether a row of a batch changes a model's output for another row, tested by changing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.models.perturb import NOISE, inner_outputs, moved
from hotloop.observe.probes.module_calls import tensors
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.observe.probes.module_calls import Call

__all__ = ["mixes_rows", "sequence_first", "unbatched"]


def mixes_rows(model: Any, args: Any, kwargs: Any, where: Sequence[str] = ()) -> bool | None:
    """Return whether the first of two rows changes the output for the second; None: unknown.

    In all tensors of two rows, the second row replaces the first. If the model has no output per
    row (a loss), the outputs of the modules named in `where`, which take the first dimension for
    the sequence, are compared: rows mix nowhere else. The model runs three times
    (models/perturb.py).
    """
    import torch

    rows = [tensor for tensor in tensors((args, kwargs)) if tensor.dim() and len(tensor) == 2]
    if all(torch.equal(*tensor) for tensor in rows):
        return None
    short = any(tensor.dim() > 1 and tensor.shape[1] == 2 for tensor in rows)  # rows or positions?
    modules = [] if short else [model.get_submodule(name) for name in where]
    far = moved(model, lambda: _run(model, args, kwargs, modules), [(t[0], t[1]) for t in rows])
    return None if far is None else float(far[1].max()) > NOISE


def _run(model: Any, args: Any, kwargs: Any, modules: list[Any]) -> Any:
    """Return the first floating-point output of two rows, or else those of `modules`."""
    import torch

    inside: list[Any] = []

    def see(module: Any, output: Any) -> None:
        first = next(tensors(output), None)  # the others have layers or directions first
        if (
            any(module is candidate for candidate in modules)
            and first is not None
            and first.dim() > 1
        ):
            inside.extend(tensor.flatten(1) for tensor in _of_two_rows(first))

    with inner_outputs(model, see):
        outermost = model(*args, **kwargs)
    direct = next(_of_two_rows(outermost), None)
    return torch.cat(inside, dim=1) if direct is None and inside else direct


def _of_two_rows(output: Any) -> Iterator[Any]:
    for tensor in tensors(output):
        if tensor.dim() and len(tensor) == 2 and tensor.is_floating_point():
            yield tensor


def sequence_first(model: Any) -> tuple[str, ...]:
    """Return the names of the modules that take the first dimension for the sequence."""
    from torch import nn

    kinds = (nn.MultiheadAttention, nn.RNNBase)
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, kinds) and not module.batch_first
    )


def unbatched(model: Any, calls: Sequence[Call]) -> tuple[str, ...]:
    """Return the names of the recurrent layers that gave [sequence, features], without a batch."""
    from torch import nn

    flat = {call.module for call in calls if len(call.shape) == 2}
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.RNNBase) and id(module) in flat
    )


hide(globals())
