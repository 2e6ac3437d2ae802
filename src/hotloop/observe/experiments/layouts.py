"""Switches convolutions between the two layouts of images in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ChannelsLast"]


class ChannelsLast(Variant):
    """Weights of 2-D convolutions, their states and their inputs lie channel by channel."""

    def __init__(self, optimizers: Callable[[], list[Any]]) -> None:
        self._optimizers = optimizers
        self._handle: Any = None

    def prepare(self) -> str | None:
        """Look for weights of convolutions in the other layout."""
        weights = list(self._weights())
        if not weights:
            return "no weight of a 2-D convolution is trained"
        import torch

        is_last = all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)
        return "they lie so already" if is_last else None

    def switch_on(self) -> None:
        """Turn weights and states, and each input of a convolution that is not turned yet."""
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook

        self._turn(torch.channels_last)

        def turned(module: Any, args: Any) -> Any:
            if not isinstance(module, torch.nn.Conv2d):
                return None
            return tuple(
                x.contiguous(memory_format=torch.channels_last)
                if isinstance(x, torch.Tensor) and x.dim() == 4
                else x
                for x in args
            )

        self._handle = register_module_forward_pre_hook(turned)

    def switch_off(self) -> None:
        """Turn them back."""
        import torch

        self._handle.remove()
        self._turn(torch.contiguous_format)

    def _weights(self) -> Iterator[Any]:
        for optimizer in self._optimizers():
            for group in optimizer.param_groups:
                yield from (
                    weight
                    for weight in group["params"]
                    if weight.dim() == 4 and weight.is_floating_point()
                )

    def _turn(self, layout: Any) -> None:
        for weight in self._weights():
            weight.data = weight.data.contiguous(memory_format=layout)
            weight.grad = None
        for optimizer in self._optimizers():
            for state in optimizer.state.values():
                for name, value in state.items():
                    if getattr(value, "ndim", 0) == 4:
                        state[name] = value.contiguous(memory_format=layout)
