"""Finds the attention kernel that really runs by running it, because a request proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.session.session import Session

__all__ = ["attention_modules", "first_that_runs", "kernel_of"]

# torch's messages for a kernel that is missing or does not take the shape; the last is cuDNN's,
# https://github.com/pytorch/pytorch/issues/140930 (2026-11).
_NONE_RUNS = ("No available kernel", "No viable backend", "No execution plans support")


def attention_modules(model: nn.Module) -> list[Any]:
    """Return the modules whose kernel can be set: those with `attention` and `attend(q, k, v)`."""
    return [m for m in model.modules() if hasattr(m, "attention") and hasattr(m, "attend")]


class _Names(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: keeping the compiler out of this mode would import it, which takes 1 s."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__.split(".")[0])
        return func(*args, **(kwargs or {}))


def _dtype(session: Session) -> torch.dtype:
    if "autocast-bf16" in session.wrapped:
        return torch.bfloat16
    return torch.float16 if "autocast-fp16" in session.wrapped else torch.float32


def _run(session: Session, module: Any) -> list[str]:
    """Attend forward and backward on random [B, H, T, K] tensors; return the operators' names."""
    shape = (min(session.micro_batch, 2), module.heads, module.context, module.head_width)
    devices = [session.device] if session.device.type == "cuda" else []
    names = _Names()
    with torch.random.fork_rng(devices), torch.enable_grad(), names:
        q, k, v = (
            torch.randn(shape, dtype=_dtype(session), device=session.device, requires_grad=True)
            for _ in range(3)
        )
        module.attend(q, k, v).sum().backward()
    return names.seen


def kernel_of(session: Session, module: Any) -> str:
    """Return the name of the attention kernel that the module runs at its own shape and dtype."""
    fused = [n for n in _run(session, module) if "attention" in n and "backward" not in n]
    return fused[0].lstrip("_") if fused else "written-out products"


def first_that_runs(session: Session, module: Any, order: Sequence[str]) -> str:
    """Return the first back end of `order` that runs forward and backward here, else "auto"."""
    before = module.attention
    try:
        for backend in order:
            module.attention = backend
            try:
                _run(session, module)
            except RuntimeError as error:
                if not any(words in str(error) for words in _NONE_RUNS):
                    raise
                continue
            return backend
        return "auto"
    finally:
        module.attention = before
