"""What the recorded operators show of the losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.places import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.core.finding import SourceLocation
    from hotloop.observe.ledger.window import Window

__all__ = ["softmax_twice", "without_gradient"]


def softmax_twice(windows: Iterable[Window]) -> tuple[SourceLocation, ...]:
    """Return the project's lines whose log-softmax was given probabilities in each call."""
    always: dict[SourceLocation, bool] = {}
    for window in windows:
        for stack, is_one in window.recorder.probabilities.items():
            if (place := place_of(shown(stack))) is not None:
                always[place] = always.get(place, True) and is_one
    return tuple(place for place, is_one in always.items() if is_one)


def without_gradient(windows: Iterable[Window]) -> float | None:
    """Return the share of the positions of the largest log-softmax that the loss leaves out."""
    operations = (one for window in windows for one in window.recorder.operations)
    losses = [one for one in operations if one.left_out is not None]
    largest = max(losses, key=lambda one: one.bytes, default=None)
    return None if largest is None else float(largest.left_out)
