"""Compute layers with adapters together that read the same input: q, k and v, gate and up.

The first of them that is called computes all; the others, called with the same tensor, take what is
there. Groups are proposed by names that models give such layers, and each use is checked by the
identity of the input: a layer that gets another one is computed with it, and nothing is wrong.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from hotloop.models.adapters.lora import LoraLinear, products

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

__all__ = ["SharedInput", "share_inputs"]

# Names in transformers. Sources: its models llama, qwen3, gemma3 (decoders) and bert.
_TOGETHER = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("gate_proj", "up_proj"))


class SharedInput:
    """Layers that read the same input."""

    def __init__(self, layers: Sequence[LoraLinear]) -> None:
        self._layers = layers
        self._x: Tensor | None = None
        self._state: tuple[object, ...] = ()
        self._waiting: dict[int, Tensor] = {}  # id of a layer -> its output, not taken yet

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedInput:
        """Return the same for a copy of the layers, without outputs."""
        copied = SharedInput([])
        memo[id(self)] = copied
        copied._layers = [copy.deepcopy(layer, memo) for layer in self._layers]
        return copied

    def forget(self) -> None:
        """Let go of outputs that were not taken, and of their graph."""
        self._x, self._waiting = None, {}

    def output(self, layer: LoraLinear, x: Tensor) -> Tensor:
        """Return the output of one of the layers as [N, O], in the dtype of the products."""
        if all(layer is not one for one in self._layers):  # a shallow copy, as DataParallel makes
            return products([layer], x)[0]
        written = 0 if x.is_inference() else x._version
        state = written, torch.is_grad_enabled(), layer.computed_in(x)
        if self._x is not x or self._state != state or id(layer) not in self._waiting:
            outputs = products(self._layers, x)
            self._x, self._state = x, state
            self._waiting = {id(e): y for e, y in zip(self._layers, outputs, strict=True)}
        output = self._waiting.pop(id(layer))
        if not self._waiting:
            self._x = None
        return output


def share_inputs(model: nn.Module) -> list[SharedInput]:
    """Let the layers with adapters that read one input know of each other; return the groups.

    Models with an encoder and a decoder have none: there, keys and values are of another input.
    """
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False) or getattr(
        config, "add_cross_attention", False
    ):
        return []
    groups = []
    for module in model.modules():
        for names in _TOGETHER:
            layers = [getattr(module, name, None) for name in names]
            if len(alike := [one for one in layers if isinstance(one, LoraLinear)]) < 2:
                continue
            if len({(type(one), one.lora_A.shape, one.compute) for one in alike}) == 1:
                groups.append(SharedInput(alike))
                for layer in alike:
                    layer.beside = groups[-1]
    return groups
