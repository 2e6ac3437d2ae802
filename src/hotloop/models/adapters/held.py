"""Prepare adapters once for all micro batches between two updates, A of one shape together.

`adapters_held` does so when an adapter is first used; `FixedAdapters` keeps them in memory that
stays in place, for steps that are recorded. Changes cannot be detected reliably: torch's fused
AdamW, bitsandbytes and `.data` write without raising a tensor's version (torch 2.13). Outside both,
each forward pass prepares its own.
"""

from __future__ import annotations

import contextlib
from dataclasses import fields
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from hotloop.models.adapters.lora import LoraLinear
from hotloop.models.adapters.product import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.models.adapters.lora import Holder

__all__ = ["FixedAdapters", "adapters_held"]


class _Alike:
    """Layers with A of one shape, which are prepared together: a few kernels for all of them."""

    def __init__(self, layers: Sequence[LoraLinear], *, stays: bool = False) -> None:
        self._layers = layers
        self.stays = stays  # prepared again only by `refresh`
        self._made: dict[int, tuple[tuple[int, ...], Prepared]] = {}  # id -> versions, result
        self._dtype: torch.dtype | None = None

    def ready(self, layer: LoraLinear, dtype: torch.dtype) -> Prepared:
        """Return the layer's adapter for products in a dtype, prepared now or before."""
        versions, made = _versions(layer), self._made.get(id(layer))
        is_stale = made is None or (made[0] != versions and not self.stays)
        if is_stale or self._dtype != dtype:
            with torch.inference_mode(mode=False):  # else training could not use it later
                prepared = type(layer).prepare(self._layers, dtype)
            pairs = zip(self._layers, prepared, strict=True)
            self._made = {id(each): (_versions(each), one) for each, one in pairs}
            self._dtype = dtype
        return self._made[id(layer)][1]

    def forget(self) -> None:
        """Prepare the layers again when they are next used."""
        self._made = {}

    def refresh(self) -> None:
        """Prepare the layers again, if they were used, into the memory of before."""
        if self._dtype is None:
            return
        fresh = type(self._layers[0]).prepare(self._layers, self._dtype)
        pairs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for layer, new in zip(self._layers, fresh, strict=True):
            old = self._made[id(layer)][1]
            for field in fields(Prepared):
                into, value = getattr(old, field.name), getattr(new, field.name)
                if isinstance(into, torch.Tensor) and into is not value:
                    pairs[id(into)] = into, value  # layers share their A
        torch._foreach_copy_([a for a, _ in pairs.values()], [b for _, b in pairs.values()])


@contextlib.contextmanager
def adapters_held(model: nn.Module) -> Iterator[None]:
    """Prepare each adapter once and keep it in this context: a window, an evaluation.

    Nothing may write an adapter's parameters meanwhile without raising their versions, except an
    optimizer's `step`, after which they are prepared again.
    """
    layers = [module for module in model.modules() if isinstance(module, LoraLinear)]
    before = [layer.holder for layer in layers]
    holders = list(_grouped(layers))

    def forget(*_: object) -> None:
        for holder in holders:
            holder.forget()

    hook = register_optimizer_step_post_hook(forget) if layers else None
    try:
        yield
    finally:
        if hook is not None:
            hook.remove()
        for layer, holder in zip(layers, before, strict=True):
            layer.holder = holder
            if holder is not None:
                holder.forget()
            if layer.beside is not None:  # a pass that failed may have left outputs
                layer.beside.forget()


class FixedAdapters:
    """Adapters that are prepared only when told so, in memory that stays in place."""

    def __init__(self, model: nn.Module) -> None:
        self._layers = [module for module in model.modules() if isinstance(module, LoraLinear)]
        before = [layer.holder for layer in self._layers]
        self._holders = list(_grouped(self._layers, stays=True))
        self._own = [layer.holder for layer in self._layers]
        self._give(before)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Compute with these in the block; the first passes in a block prepare them."""
        before = [layer.holder for layer in self._layers]
        self._give(self._own)
        try:
            yield
        finally:
            self._give(before)

    def refresh(self) -> None:
        """Prepare those that were used again, from the parameters of now."""
        for holder in self._holders:
            holder.refresh()

    def _give(self, holders: Iterable[Holder | None]) -> None:
        for layer, holder in zip(self._layers, holders, strict=True):
            layer.holder = holder


def _grouped(layers: Iterable[LoraLinear], *, stays: bool = False) -> Iterator[_Alike]:
    """Set and yield the holders of layers. One that is sharded over ranks is whole only alone."""
    groups: dict[tuple[object, ...], list[LoraLinear]] = {}
    for layer in layers:
        a_RI = layer.lora_A
        own = None if type(a_RI) is nn.Parameter else id(layer)  # a DTensor is a class of its own
        key = (type(layer), a_RI.shape, a_RI.dtype, a_RI.device, layer.scaling, own)
        groups.setdefault(key, []).append(layer)
    for group in groups.values():
        holder = _Alike(group, stays=stays)
        for layer in group:
            layer.holder = holder
        yield holder


def _versions(layer: LoraLinear) -> tuple[int, ...]:
    return tuple(parameter._version for parameter in layer.trained().values())
