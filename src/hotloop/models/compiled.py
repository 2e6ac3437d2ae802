"""Tells a model that torch.compile took."""

from __future__ import annotations

from typing import Any

__all__ = ["is_compiled"]


def is_compiled(module: Any) -> bool:
    """Whether torch.compile took the module: what runs inside is not seen."""
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    return compiled or type(module).__name__ == "OptimizedModule"
