"""Change a part of a model's inputs, and measure which parts of its output change."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from hotloop.models.compiled import is_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["NOISE", "inner_outputs", "moved", "undisturbed"]

NOISE = 1e-4  # of the largest output; smaller changes are rounding


def moved(model: Any, run: Callable[[], Any], changes: Sequence[tuple[Any, Any]]) -> Any:
    """Return the change of each number of an output over the largest number, in the output's shape.

    `run` calls the model and returns the output, or None; `changes` are views of its inputs with
    their new values, and are restored. Returns None if there is no such output, or if it differs
    from call to call. The model runs three times, without gradients, in evaluation mode and with
    the random generators restored.
    """
    import torch

    with undisturbed(model, changes[0][0]):
        first, second = run(), run()
        if first is None or second is None or not torch.equal(first, second):
            return None
        before = [view.clone() for view, _ in changes]
        for view, values in changes:
            view.copy_(values)
        third = run()
        for (view, _), old in zip(changes, before, strict=True):
            view.copy_(old)
    if third is None or third.shape != first.shape:
        return None
    first = first.float()
    return (third.float() - first).abs() / (float(first.abs().max()) or 1.0)


@contextlib.contextmanager
def inner_outputs(model: Any, see: Callable[[Any, Any], None]) -> Iterator[None]:
    """Call `see` with each module that ends a call, and its output.

    Does nothing in a compiled model, which a hook would cause to be compiled again.
    """
    from torch.nn.modules.module import register_module_forward_hook

    if any(map(is_compiled, model.modules())):
        yield
        return
    handle = register_module_forward_hook(lambda module, _, output: see(module, output))
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def undisturbed(model: Any, tensor: Any) -> Iterator[None]:
    """Restore the model's modes and the generators of a tensor's device."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    with torch.random.fork_rng([tensor.device] if tensor.is_cuda else []), torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training
