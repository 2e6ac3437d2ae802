"""Finds the modules of this process, and counts their calls."""

from __future__ import annotations

import gc
from typing import Any

__all__ = ["ForwardCalls", "buffers", "outermost"]


def buffers() -> list[Any]:
    """Return the buffers of all modules that exist."""
    return [buffer for module in _modules() for buffer in module.buffers(recurse=False)]


def outermost() -> list[Any]:
    """Return the modules that are no part of another."""
    modules = _modules()
    inner = {id(part) for module in modules for part in module.children()}
    return [module for module in modules if id(module) not in inner]


class ForwardCalls:
    """Counts the calls of the modules that exist now and are no part of another."""

    def __init__(self) -> None:
        import torch

        self.count = 0
        for module in outermost():
            if not isinstance(module, torch.jit.ScriptModule):
                module.register_forward_pre_hook(self._called)

    def _called(self, *_: object) -> None:
        self.count += 1


def _modules() -> list[Any]:
    return [thing for thing in gc.get_objects() if _is_module(thing)]


def _is_module(thing: object) -> bool:
    import torch

    return issubclass(type(thing), torch.nn.Module)
