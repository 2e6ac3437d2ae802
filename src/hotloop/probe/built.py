"""The objects of PyTorch's that a script built: held weakly, numbered when they are first used."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotloop.core.finding import Place

__all__ = ["Built", "again", "alive", "known"]


@dataclass(slots=True)
class Built:
    """An object of PyTorch's that the script built, and where."""

    thing: weakref.ref[Any]
    place: Place | None
    number: int | None = None  # in marks, once it is used
    facts: Any = None  # as they were when last taken
    at: int = 0  # updates made until then
    rates: list[tuple[int, float]] = field(default_factory=list)  # (update, learning rate)


def alive(entries: list[Built]) -> list[tuple[Built, Any]]:
    """Return the entries whose object is still there, with it."""
    things = ((entry, entry.thing()) for entry in entries)
    return [(entry, thing) for entry, thing in things if thing is not None]


def known(entries: list[Built], thing: Any) -> tuple[int, Built]:
    """Return the number and the entry of an object that is used; it gets them if it has none."""
    entry = next((entry for entry in entries if entry.thing() is thing), None)
    if entry is None:
        entry = Built(weakref.ref(thing), None)
        entries.append(entry)
    if entry.number is None:
        entry.number = sum(other.number is not None for other in entries)
    return entry.number, entry


def again(entries: list[Built], built: Built) -> int:
    """Return the number of a loader, which may take the place of one that is gone.

    Trainers build one anew for each evaluation, scripts for each epoch: at the same line, with the
    same facts. It is one loader then, and `built` leaves the list.
    """
    assert built.number is not None
    for old in entries:
        gone = old.number is not None and old.thing() is None and old.facts is not None
        if gone and replace(built.facts, key=old.number) == old.facts:
            old.thing = built.thing
            entries[:] = [entry for entry in entries if entry is not built]
            return int(old.facts.key)
    return built.number
