"""Modules that run in training but whose output is not read, or passes no gradient back.

A parameter without a gradient is no proof: its module may make a choice (an argmax). So the model
runs once more, in training mode, and a dispatch mode sees which operators take the module's output.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from hotloop.core.case.objects import Discarded
from hotloop.models.compiled import is_compiled
from hotloop.observe.probes.forward_passes import places_of, seconds_of
from hotloop.observe.probes.module_calls import tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotloop.observe.probes.forward_passes import Pass
    from hotloop.observe.probes.layers import ModuleFacts

__all__ = ["discarded", "without_gradient"]

_MOST = 4  # modules that are examined, the slowest first


def without_gradient(
    passes: Sequence[Pass], layers: Mapping[int, ModuleFacts], dead: set[int]
) -> list[int]:
    """Return the outermost modules that ran with gradients and have only `dead` parameters."""
    called = {call.module for calls in passes for call in calls if call.requires}
    outermost: dict[str, int] = {}
    for number, layer in layers.items():
        trained = [tensor for tensor, _, trains in layer.parameters if trains]
        inside = any(layer.name.startswith(f"{name}.") for name in outermost)
        if number in called and layer.name and trained and not inside and set(trained) <= dead:
            outermost[layer.name] = number
    numbers = list(outermost.values())
    return sorted(numbers, key=lambda number: -(seconds_of({number}, passes) or 0.0))[:_MOST]


def discarded(
    model: Any,
    arguments: tuple[Any, Any],
    passes: Sequence[Pass],
    layers: Mapping[int, ModuleFacts],
    numbers: Sequence[int],
) -> list[Discarded]:
    """Return the modules among `numbers` whose output no operator of the model reads."""
    modules = {id(part): part for part in model.modules()}
    candidates = {number: modules[number] for number in numbers if number in modules}
    if not candidates or _is_not_to_be_run(model):
        return []
    used, returned = _uses(model, arguments, candidates)
    whole = seconds_of({c.module for calls in passes for c in calls if c.parent < 0}, passes)
    results = []
    for number in candidates.keys() - used:
        layer, seconds = layers[number], seconds_of({number}, passes)
        results.append(
            Discarded(
                module=layer.name,
                kind=layer.kind,
                parameters=sum(count for _, count, trains in layer.parameters if trains),
                seconds=seconds,
                share=min(1.0, seconds / whole) if seconds and whole else None,
                returned=number in returned,
                call_places=places_of(number, passes),
            )
        )
    return sorted(results, key=lambda part: -(part.seconds or 0.0))


def _is_not_to_be_run(model: Any) -> bool:
    """Whether a run would involve other processes, or compile the model again."""
    import torch

    shared = torch.distributed.is_available() and torch.distributed.is_initialized()
    return shared or any(map(is_compiled, model.modules()))


def _uses(
    model: Any, arguments: tuple[Any, Any], modules: Mapping[int, Any]
) -> tuple[set[int], set[int]]:
    """Return the modules whose output is read or kept alive, and those whose output is returned."""
    import torch
    from torch.utils.weak import TensorWeakRef

    marked: list[tuple[int, Any]] = []
    used: set[int] = set()

    def read(tensor: Any) -> None:
        used.update(number for number, produced in marked if produced() is tensor)

    def mark(number: int, output: Any) -> None:
        produced = list(tensors(output))
        marked.extend((number, TensorWeakRef(tensor)) for tensor in produced)
        if not produced:  # an output that is not examined
            used.add(number)

    args, kwargs = arguments
    with contextlib.ExitStack() as stack:
        for number, part in modules.items():
            handle = part.register_forward_hook(lambda _, __, out, n=number: mark(n, out))
            stack.callback(handle.remove)
        stack.enter_context(_as_in_training(model, arguments))
        with torch.enable_grad(), _reading(read):
            output = model(*args, **kwargs)
        called = {number for number, _ in marked}
        out = {id(tensor) for tensor in tensors(output)}
        returned = {
            n
            for n, produced in marked
            if (output_tensor := produced()) is not None and id(output_tensor) in out
        }
        alive = {number for number, produced in marked if produced() is not None} - returned
    return used | alive | (modules.keys() - called), returned


def _reading(read: Callable[[Any], None]) -> Any:
    """Return a dispatch mode that calls `read` with each tensor that an operator takes."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Reading(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            for tensor in tensors((args, kwargs or {})):
                read(tensor)
            return func(*args, **(kwargs or {}))

    return Reading()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _as_in_training(model: Any, arguments: Any) -> Iterator[None]:
    """Set the training mode; restore modes, buffers and random generators afterwards."""
    import torch

    modes = [(part, part.training) for part in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    gpus = {tensor.device for tensor in tensors(arguments) if tensor.is_cuda}
    with torch.random.fork_rng(list(gpus)):
        model.train()
        try:
            yield
        finally:
            for part, mode in modes:
                part.training = mode
            for buffer, before in buffers:
                with torch.no_grad():
                    buffer.copy_(before)
