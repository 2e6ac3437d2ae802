"""The PyTorch objects that a script built, held weakly and numbered at their first use."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotloop.core.finding import SourceLocation

__all__ = ["LiveObject", "again", "alive", "known", "schedules", "unoptimised"]


@dataclass(slots=True)
class LiveObject:
    """A PyTorch object that the script built, and where."""

    reference: weakref.ref[Any]
    place: SourceLocation | None
    number: int | None = None  # in marks; None until the object is used
    facts: Any = None  # as they were when they were last collected
    at: int = 0  # updates made before the facts were collected
    rates: list[tuple[int, float]] = field(default_factory=list)  # (update, learning rate)
    idle: int = 0  # of a module: trainable numbers that no optimizer updates, at its last call
    called: SourceLocation | None = None  # of a module: where it was called last
    in_loop: bool = False  # of a scheduler: it was built inside a loop of the project's own code
    begun: int = 0  # of a scheduler: its calls before the first batch


def alive(entries: list[LiveObject]) -> list[tuple[LiveObject, Any]]:
    """Return each entry whose object still exists, with the object."""
    pairs = ((entry, entry.reference()) for entry in entries)
    return [(entry, instance) for entry, instance in pairs if instance is not None]


def unoptimised(module: Any, optimizers: list[LiveObject]) -> int:
    """Return how many numbers of `module` get a gradient that no optimizer uses.

    0 without gradients, before an optimizer is in use, and where one holds some of them.
    """
    import torch

    used = [instance for entry, instance in alive(optimizers) if entry.number is not None]
    if not used or not torch.is_grad_enabled():
        return 0
    groups = [group for optimizer in used for group in optimizer.param_groups]
    held = {id(parameter) for group in groups for parameter in group["params"]}
    trainable = [p for p in module.parameters() if p.requires_grad]
    return 0 if any(id(p) in held for p in trainable) else sum(p.numel() for p in trainable)


def schedules(
    entries: list[LiveObject], optimizers: list[LiveObject], done: int, *, begins: bool
) -> None:
    """Collect the facts of the schedulers that still exist after `done` updates.

    With `begins` training is about to begin: steps that they count already are an earlier run's.
    """
    from hotloop.observe.hooks import describe

    for built, scheduler in alive(entries):
        facts = describe.scheduler(scheduler, place=built.place)
        built.begun = facts.steps if begins else built.begun
        number = _number_of(getattr(scheduler, "optimizer", None), optimizers)
        built.facts = replace(facts, begun=built.begun, optimizer=number, in_loop=built.in_loop)
        built.at = done


def _number_of(optimizer: Any, optimizers: list[LiveObject]) -> int | None:
    """Return the number of an optimizer, or of the optimizer that it wraps, as Accelerate's do.

    -1 for one that was never stepped, None for one whose construction was not seen.
    """
    while optimizer is not None:
        for entry in optimizers:
            if entry.reference() is optimizer:
                return -1 if entry.number is None else entry.number
        optimizer = getattr(optimizer, "__dict__", {}).get("optimizer")
    return None


def known(entries: list[LiveObject], instance: Any) -> tuple[int, LiveObject]:
    """Return the number and the entry of an object in use; create them if it has none."""
    entry = next((entry for entry in entries if entry.reference() is instance), None)
    if entry is None:
        entry = LiveObject(weakref.ref(instance), None)
        entries.append(entry)
    if entry.number is None:
        entry.number = sum(other.number is not None for other in entries)
    return entry.number, entry


def again(entries: list[LiveObject], built: LiveObject) -> int:
    """Return the number of a loader, which may replace one that was built before.

    Trainers build a new loader for each evaluation, scripts for each epoch: on the same line, with
    the same facts, and from the same data set if the old loader still exists (Accelerate keeps
    them). The two then count as one loader, and `built` leaves the list.
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
