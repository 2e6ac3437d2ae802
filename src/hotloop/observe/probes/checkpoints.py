"""What was saved: where, how long it took, and what a checkpoint holds by its names and kinds."""

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
    """A call of torch.save or its like."""

    at: int  # ns
    seconds: float
    updates: int
    path: str
    place: SourceLocation | None
    content: tuple[str, ...]  # what `content` says of it
    frozen_bytes: int = 0  # what `frozen_bytes` says of it


def content(thing: Any) -> tuple[str, ...]:
    """Return which of model, optimizer, scheduler, scaler, rng, epoch and other are in it."""
    if hasattr(thing, "state_dict"):
        return ("model",)
    if not isinstance(thing, Mapping):
        return ("other",)
    if "param_groups" in thing and "state" in thing:
        return ("optimizer",)
    if thing and all(hasattr(value, "untyped_storage") for value in thing.values()):
        return ("model",)
    kinds = {_kind(str(name), value) for name, value in thing.items()}
    return tuple(sorted(kinds))


def _kind(name: str, value: Any) -> str:
    if isinstance(value, Mapping) and "param_groups" in value:
        return "optimizer"
    lowered = name.lower()
    return next((kind for part, kind in _NAMES.items() if part in lowered), "other")


def frozen_bytes(thing: Any, models: Iterable[Any]) -> int:
    """Return the bytes of what is saved that are parameters which never get a gradient.

    A tensor counts where it lies in such a parameter's memory: a copy does not.
    """
    frozen = {
        parameter.data_ptr()
        for model in models
        for parameter in model.parameters()
        if not parameter.requires_grad
    }
    found = {each.data_ptr(): each.nbytes for each in _tensors(thing)} if frozen else {}
    return sum(size for place, size in found.items() if place in frozen)


def _tensors(thing: Any) -> Iterator[Any]:
    """Yield the tensors of a module, or of dicts and lists in each other."""
    if hasattr(thing, "data_ptr"):
        yield thing
    elif isinstance(thing, Mapping | list | tuple):
        for each in thing.values() if isinstance(thing, Mapping) else thing:
            yield from _tensors(each)
    elif hasattr(thing, "parameters"):
        yield from thing.parameters()


def path_of(target: Any) -> str | None:
    """Return the path of what was written to, a path or an open file; None for memory."""
    if isinstance(target, io.BytesIO):
        return None
    if isinstance(target, str | os.PathLike):
        return os.fspath(target)
    return str(getattr(target, "name", "unknown"))
