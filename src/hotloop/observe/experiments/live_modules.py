"""Finds the modules of this process."""

from __future__ import annotations

import gc
from typing import Any

__all__ = ["buffers"]


def buffers() -> list[Any]:
    """Return the buffers of all modules that exist."""
    modules = [thing for thing in gc.get_objects() if _is_module(thing)]
    return [buffer for module in modules for buffer in module.buffers(recurse=False)]


def _is_module(thing: object) -> bool:
    import torch

    return issubclass(type(thing), torch.nn.Module)
