"""What a checkpoint holds, judged by the names and kinds of what is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["content"]

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
