"""Recognise a model that torch.compile compiled."""

from __future__ import annotations

from typing import Any

__all__ = ["is_compiled"]


def is_compiled(module: Any) -> bool:
    """Return whether torch.compile compiled the module, so that its inner calls are not visible."""
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    return compiled or type(module).__name__ == "OptimizedModule"
