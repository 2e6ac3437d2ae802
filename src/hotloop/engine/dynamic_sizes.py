"""Tell torch.compile which sizes change from batch to batch, before it compiles for the first.

Without it the first graph is for the sizes of one batch, and a second one, for any sizes, is
compiled when the next batch comes. Which sizes change is seen at a few batches: the tensors that
reach each compiled module are compared.
Source: torch.compiler.set_stance and torch._dynamo.maybe_mark_dynamic (torch 2.11, 2026-11).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hotloop.models.compiled import is_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn

__all__ = ["changing_sizes_marked"]

_Sizes = list[tuple[int, ...]]  # of the tensors of a call, in order


@contextmanager
def changing_sizes_marked(
    model: nn.Module, passes: Sequence[Callable[[], object]]
) -> Iterator[None]:
    """Mark sizes that differ between forward passes in all calls of the compiled modules.

    The `passes` are made eagerly at once. With fewer than two nothing is marked.
    """
    if len(passes) < 2:
        yield
        return
    modules = [module for module in model.modules() if is_compiled(module)]
    seen: dict[nn.Module, list[_Sizes]] = {module: [] for module in modules}

    def keep(module: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        seen[module].append([tuple(tensor.shape) for tensor in _tensors((args, named))])

    hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in modules]
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            for forward in passes:
                forward()
    finally:
        for hook in hooks:
            hook.remove()
    compiled = {module: module._compiled_call_impl for module in modules}
    for module, call in compiled.items():
        module._compiled_call_impl = _marking(call, _changing(seen[module]))
    try:
        yield
    finally:
        for module, call in compiled.items():
            if module._compiled_call_impl is not None:  # compiling has not failed
                module._compiled_call_impl = call


def _marking(call: Any, changing: Sequence[Sequence[int]]) -> Callable[..., Any]:
    def marked(*args: Any, **named: Any) -> Any:
        for tensor, dims in zip(_tensors((args, named)), changing, strict=False):
            for dim in dims:
                torch._dynamo.maybe_mark_dynamic(tensor, dim)
        return call(*args, **named)

    return marked


def _changing(calls: Sequence[_Sizes]) -> list[list[int]]:
    """Return the dims of each tensor that are not the same in all calls."""
    changing = []
    for sizes in zip(*calls, strict=False):
        dims = range(min(map(len, sizes)))
        changing.append([dim for dim in dims if len({size[dim] for size in sizes}) > 1])
    return changing


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested sequences, mappings and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))
