"""The inputs of a model's call, with more rows or with shorter ones."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ResizingError",
    "addresses_of",
    "mapped",
    "narrowed",
    "repeated",
    "stacked",
    "tensors_of",
    "unchanged",
]


class ResizingError(Exception):
    """The inputs of the model cannot be joined or cut; the text says why."""


def unchanged(tensor: Any) -> Any:
    """Return a tensor as it is."""
    return tensor


def repeated(call: Any, factor: int) -> Callable[[Any], Any]:
    """Return the change to `factor` times as many rows, the first dimension of the first tensor."""
    inputs = [x for x in tensors_of(call.inputs) if x.ndim]
    if not inputs:
        raise ResizingError("the model takes no tensor with rows")
    rows = len(inputs[0])
    differ = zip(tensors_of(call.inputs), call.addresses, strict=True)
    if any(x.ndim and address is None and len(x) != rows for x, address in differ):
        raise ResizingError("the tensors of a call have different numbers of rows")

    def change(tensor: Any) -> Any:
        import torch

        has_rows = tensor.ndim and len(tensor) == rows
        return torch.cat([tensor] * factor) if has_rows else tensor

    return change


def stacked(call: Any, factor: int) -> Callable[[Any], Any]:
    """Return the change of one sample to a batch of `factor` samples."""
    del call

    def change(tensor: Any) -> Any:
        import torch

        return torch.stack([tensor] * factor)

    return change


def narrowed(call: Any, share: float, width: int | None) -> Callable[[Any], Any]:
    """Return the change to a share of the width, the second dimension of the first tensor.

    Other tensors of token ids, such as the sentences to translate into, have widths of their own.
    Lengths of rows, one number for each, are cut to the new width.
    """
    wide = [x for x in tensors_of(call.inputs) if x.ndim > 1]
    tokens = [x.shape[1] for x in wide if x.ndim == 2 and not x.is_floating_point()]
    widths = {size for size in [*(x.shape[1] for x in wide[:1]), *tokens] if size > 1}
    widths &= widths if width is None else {width}
    if not widths:
        raise ResizingError("the model takes no tensor with rows of several positions")

    rows = len(wide[0])
    longest = max(widths)

    def change(tensor: Any) -> Any:
        is_lengths = tensor.ndim == 1 and len(tensor) == rows and not tensor.is_floating_point()
        if is_lengths and tensor.numel() and int(tensor.max()) <= longest:
            return tensor.clamp(max=max(1, round(share * longest)))
        for dimension, size in enumerate(tensor.shape):
            is_square = tensor.ndim == 2 and tensor.shape[0] == tensor.shape[1]
            if size in widths and (dimension or is_square or tensor.ndim == 1):
                tensor = tensor.narrow(dimension, 0, max(1, round(share * size)))
        return tensor.contiguous()  # as a batch of that width would be

    return change


def mapped(change: Callable[[Any], Any], inputs: Any) -> Any:
    """Return inputs with their tensors changed."""
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, change, inputs)


def addresses_of(inputs: Any) -> list[int | None]:
    """Return where the tensors of inputs lie, in order."""
    return [x.data_ptr() for x in tensors_of(inputs)]


def tensors_of(value: Any) -> list[Any]:
    """Return the tensors in nested containers, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    found = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            found += tensors_of(vars(leaf))
    return found
