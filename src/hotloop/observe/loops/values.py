"""The values of names in a script, and the length of a loop over them, without running its code.

Only the `__len__` of types from PyTorch, NumPy or Python itself is called.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SIMPLE", "Unknown", "is_from", "length", "value_of"]

SIMPLE = (int, float, str, bool, type(None))
_SIZED = (list, tuple, dict, set, frozenset, str, range)
_LIBRARIES = {"torch", "accelerate"}  # their loaders, samplers and tensors have a true length


class Unknown(Exception):  # noqa: N818 - not an error: the answer is "unknown"
    """The answer needs more than is examined here."""


def value_of(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a name, an attribute or an entry with a constant key."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
    if isinstance(node, ast.Attribute):
        holder = value_of(node.value, names)
        try:
            attribute = inspect.getattr_static(holder, node.attr)
        except AttributeError:
            raise Unknown(node.attr) from None
        is_plain = inspect.isroutine(attribute) or isinstance(attribute, type)
        if is_plain or not hasattr(type(attribute), "__get__"):
            return attribute  # a property would run code
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        holder, key = value_of(node.value, names), node.slice.value
        if type(holder) is dict and key in holder:
            return holder[key]
        if type(holder) in (list, tuple) and isinstance(key, int):
            with contextlib.suppress(IndexError):
                return holder[key]
    raise Unknown(ast.dump(node)[:60])


def length(iterable: Any) -> int:
    """Return the number of iterations of a loop over `iterable`. Raises Unknown."""
    if type(iterable) in _SIZED:
        return len(iterable)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(iterable) is torch.Tensor and iterable.dim():
        return len(iterable)
    if numpy is not None and type(iterable) is numpy.ndarray and iterable.ndim:
        return len(iterable)
    if is_from(type(iterable), "tqdm"):
        return length(getattr(iterable, "iterable", None))
    if torch is not None and isinstance(iterable, torch.utils.data.DataLoader):
        return _batches(iterable)
    raise Unknown(type(iterable).__name__)


def _batches(loader: Any) -> int:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        raise Unknown("an iterable data set")
    parts = (loader, loader.batch_sampler, loader.sampler)
    if not all(is_from(type(part), *_LIBRARIES) for part in parts if part is not None):
        raise Unknown("a loader or a sampler of the script's own")
    return len(loader)


def is_from(target: Any, *packages: str) -> bool:
    """Whether a class or a function was defined in one of these packages."""
    return str(getattr(target, "__module__", "")).partition(".")[0] in packages
