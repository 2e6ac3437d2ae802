"""The PyTorch objects that a script built, held weakly and numbered at their first use."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotloop.core.finding import SourceLocation

__all__ = ["LiveObject", "again", "alive", "find_left_out", "known", "schedules", "unoptimised"]


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
    owner: str | None = None  # of a module: the class whose forward() was called, not the module
    # Of a module: parameters that got gradients and are in no optimizer, with the update at which
    # that was seen first and their sum then; and those that had the same sum later.
    outside: dict[str, tuple[int, float]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)  # name -> numbers in it
    in_loop: bool = False  # of a scheduler: it was built inside a loop of the project's own code
    begun: int = 0  # of a scheduler: its calls before the first batch


def alive(entries: list[LiveObject]) -> list[tuple[LiveObject, Any]]:
    """Return each entry whose object still exists, with the object."""
    pairs = ((entry, entry.reference()) for entry in entries)
    return [(entry, instance) for entry, instance in pairs if instance is not None]


def unoptimised(module: Any, optimizers: list[LiveObject]) -> int:
    """Return how many trainable numbers `module` has if no optimizer holds any of them.

    0 with autograd off, before an optimizer is in use, and where one holds some of them.
    """
    import torch

    used = [instance for entry, instance in alive(optimizers) if entry.number is not None]
    if not used or not torch.is_grad_enabled():
        return 0
    groups = [group for optimizer in used for group in optimizer.param_groups]
    held = {id(parameter) for group in groups for parameter in group["params"]}
    trainable = [p for p in module.parameters() if p.requires_grad]
    return 0 if any(id(p) in held for p in trainable) else sum(p.numel() for p in trainable)


def find_left_out(
    roots: list[LiveObject], optimizers: list[LiveObject], updates: int, *, after: int
) -> None:
    """Note the parameters that get gradients, are in no optimizer and stay as they are.

    They are compared over `after` updates. A module of which no optimizer holds anything is left
    to `unoptimised`.
    """
    groups = [group for _, optimizer in alive(optimizers) for group in optimizer.param_groups]
    held = {id(parameter) for group in groups for parameter in group["params"]}
    for built, root in alive(roots):
        named = dict(root.named_parameters())
        if not any(id(parameter) in held for parameter in named.values()):
            continue
        suspects = {
            name: parameter
            for name, parameter in named.items()
            if id(parameter) not in held and parameter.grad is not None
        }
        for name in built.outside.keys() - suspects.keys():
            built.outside.pop(name)
            built.left_out.pop(name, None)
        for name, parameter in suspects.items():
            since, total = built.outside.get(name, (updates, None))
            if total is not None and (updates < since + after or name in built.left_out):
                continue
            now = float(parameter.detach().double().sum())
            if total is None:
                built.outside[name] = updates, now
            elif now == total:
                built.left_out[name] = parameter.numel()


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
