"""What was saved: where, how long it took, and the content by the names and types in it."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hotloop.core.finding import SourceLocation

__all__ = ["SaveCall", "content", "frozen_bytes", "path_of"]

_NAMES = {
    "optim": "optimizer",
    "sched": "scheduler",
    "scaler": "scaler",
    "rng": "rng",
    "random": "rng",
    "seed": "rng",
    "epoch": "epoch",
    "step": "epoch",
    "iter": "epoch",
    "model": "model",
    "net": "model",
    "state_dict": "model",
    "weight": "model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCall:
    """A call of torch.save or a similar function."""

    at: int  # ns
    seconds: float
    updates: int
    path: str
    place: SourceLocation | None
    content: tuple[str, ...]  # result of `content`
    frozen_bytes: int = 0  # result of `frozen_bytes`


def content(saved: Any) -> tuple[str, ...]:
    """Return which of model, optimizer, scheduler, scaler, rng, epoch and other it contains."""
    if hasattr(saved, "state_dict"):
        return ("model",)
    if not isinstance(saved, Mapping):
        return ("other",)
    if "param_groups" in saved and "state" in saved:
        return ("optimizer",)
    if saved and all(hasattr(value, "untyped_storage") for value in saved.values()):
        return ("model",)
    kinds = {_kind(str(name), value) for name, value in saved.items()}
    return tuple(sorted(kinds))


def _kind(name: str, value: Any) -> str:
    if isinstance(value, Mapping) and "param_groups" in value:
        return "optimizer"
    lowered = name.lower()
    return next((kind for part, kind in _NAMES.items() if part in lowered), "other")


def frozen_bytes(saved: Any, models: Iterable[Any]) -> int:
    """Return the bytes in `saved` that belong to parameters without gradients.

    A tensor counts if it shares the memory of such a parameter; a copy does not count.
    """
    frozen = {
        parameter.data_ptr()
        for model in models
        for parameter in model.parameters()
        if not parameter.requires_grad and not _is_sparse(parameter)
    }
    sizes = {tensor.data_ptr(): tensor.nbytes for tensor in _tensors(saved)} if frozen else {}
    return sum(size for place, size in sizes.items() if place in frozen)


def _tensors(saved: Any) -> Iterator[Any]:
    """Yield the tensors of a module, or of nested dicts and lists."""
    if hasattr(saved, "data_ptr"):
        if not _is_sparse(saved):
            yield saved
    elif isinstance(saved, Mapping | list | tuple):
        for element in saved.values() if isinstance(saved, Mapping) else saved:
            yield from _tensors(element)
    elif hasattr(saved, "parameters"):
        yield from saved.parameters()


def _is_sparse(tensor: Any) -> bool:
    """Whether a tensor has no memory of its own, only that of its indices and values."""
    return str(getattr(tensor, "layout", "")).startswith("torch.sparse")


def path_of(target: Any) -> str | None:
    """Return the path of a save's target, a path or an open file; None for memory."""
    if isinstance(target, io.BytesIO):
        return None
    if isinstance(target, str | os.PathLike):
        return os.fspath(target)
    return str(getattr(target, "name", "unknown"))
