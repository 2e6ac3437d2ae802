"""Finds the modules of this process."""

from __future__ import annotations

import gc
from typing import Any

__all__ = ["buffers", "outermost"]


def buffers() -> list[Any]:
    """Return the buffers of all modules that exist."""
    return [buffer for module in _modules() for buffer in module.buffers(recurse=False)]


def outermost() -> list[Any]:
    """Return the modules that are no part of another."""
    modules = _modules()
    inner = {id(part) for module in modules for part in module.children()}
    return [module for module in modules if id(module) not in inner]


def _modules() -> list[Any]:
    return [thing for thing in gc.get_objects() if _is_module(thing)]


def _is_module(thing: object) -> bool:
    import torch

    return issubclass(type(thing), torch.nn.Module)
