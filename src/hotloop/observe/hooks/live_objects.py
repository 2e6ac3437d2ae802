"""The objects of PyTorch's that a script built: held weakly, numbered when they are first used."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotloop.core.finding import SourceLocation

__all__ = ["LiveObject", "again", "alive", "known", "schedules", "unoptimised"]


@dataclass(slots=True)
class LiveObject:
    """An object of PyTorch's that the script built, and where."""

    reference: weakref.ref[Any]
    place: SourceLocation | None
    number: int | None = None  # in marks, once it is used
    facts: Any = None  # as they were when last taken
    at: int = 0  # updates made until then
    rates: list[tuple[int, float]] = field(default_factory=list)  # (update, learning rate)
    idle: int = 0  # of a module: trainable numbers that nobody updates, when it was called last
    called: SourceLocation | None = None  # of a module: where
    in_loop: bool = False  # of a scheduler: a loop of the project's own stood around its building
    begun: int = 0  # of a scheduler: its calls before the first batch


def alive(entries: list[LiveObject]) -> list[tuple[LiveObject, Any]]:
    """Return the entries whose object is still there, with it."""
    things = ((entry, entry.reference()) for entry in entries)
    return [(entry, instance) for entry, instance in things if instance is not None]


def unoptimised(module: Any, optimizers: list[LiveObject]) -> int:
    """Return how many numbers get a gradient from this call of `module` that nobody uses.

    0 without gradients, where no optimizer is in use yet, and where one holds some of them.
    """
    import torch

    used = [
        each_optimizer for entry, each_optimizer in alive(optimizers) if entry.number is not None
    ]
    if not used or not torch.is_grad_enabled():
        return 0
    held = {
        id(p) for optimizer in used for group in optimizer.param_groups for p in group["params"]
    }
    trainable = [p for p in module.parameters() if p.requires_grad]
    return 0 if any(id(p) in held for p in trainable) else sum(p.numel() for p in trainable)


def schedules(
    entries: list[LiveObject], optimizers: list[LiveObject], done: int, *, begins: bool
) -> None:
    """Take the facts of the schedulers that are alive after `done` updates.

    `begins`: training is about to begin, and what they count already is from an earlier run.
    """
    from hotloop.observe.hooks import describe

    for built, scheduler in alive(entries):
        facts = describe.scheduler(scheduler, place=built.place)
        built.begun = facts.steps if begins else built.begun
        number = _number_of(getattr(scheduler, "optimizer", None), optimizers)
        built.facts = replace(facts, begun=built.begun, optimizer=number, in_loop=built.in_loop)
        built.at = done


def _number_of(optimizer: Any, optimizers: list[LiveObject]) -> int | None:
    """Return the number of an optimizer, or of the one that it stands for, as Accelerate's do.

    -1 of one that was never stepped; None: nobody saw it being built.
    """
    while optimizer is not None:
        for entry in optimizers:
            if entry.reference() is optimizer:
                return -1 if entry.number is None else entry.number
        optimizer = getattr(optimizer, "__dict__", {}).get("optimizer")
    return None


def known(entries: list[LiveObject], instance: Any) -> tuple[int, LiveObject]:
    """Return the number and the entry of an object that is used; it gets them if it has none."""
    entry = next((entry for entry in entries if entry.reference() is instance), None)
    if entry is None:
        entry = LiveObject(weakref.ref(instance), None)
        entries.append(entry)
    if entry.number is None:
        entry.number = sum(other.number is not None for other in entries)
    return entry.number, entry


def again(entries: list[LiveObject], built: LiveObject) -> int:
    """Return the number of a loader, which may be one that was there before.

    Trainers build one anew for each evaluation, scripts for each epoch: at the same line, with the
    same facts, and from the same data set where the one before is still there (Accelerate keeps
    them). It is one loader then, and `built` leaves the list.
    """
    assert built.number is not None
    for old in entries:
        if old is built or old.number is None or old.facts is None or not _may_be(old, built):
            continue
        if replace(built.facts, key=old.number) == old.facts:
            old.reference = built.reference
            entries[:] = [entry for entry in entries if entry is not built]
            return int(old.facts.key)
    return built.number


def _may_be(old: LiveObject, built: LiveObject) -> bool:
    before, now = old.reference(), built.reference()
    return before is None or (now is not None and before.dataset is now.dataset)
