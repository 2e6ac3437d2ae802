"""Says for which steps of a run a recorded window stands, and what recording added to its own."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.observe.ledger.window import Window
    from hotloop.observe.wall.wall_time import Folded

__all__ = ["PHASES", "spent", "steps_of_windows", "window_excess"]

# The parts of a step that are split by operators.
PHASES = ("prepare", "forward", "backward", "optimizer", "after step")


def window_excess(
    windows: Sequence[Window], folded: Folded, steps: Sequence[Mapping[str, float]]
) -> tuple[dict[str, float], set[int]]:
    """Return by how many seconds recording made each row longer, and the recorded steps.

    Both count steps as `steps` does. The median step outside the windows is the measure.
    """
    recorded = {
        number
        for window in windows
        for number in range(
            folded.steps_after(window.first) - 1, folded.steps_after(window.last) - 1
        )
        if 0 <= number < len(steps)
    }
    others = [step for number, step in enumerate(steps) if number not in recorded]
    excess: dict[str, float] = {}
    for row in {row for step in steps for row in step} if others else ():
        usual = statistics.median(step.get(row, 0.0) for step in others)
        excess[row] = sum(max(0.0, steps[number].get(row, 0.0) - usual) for number in recorded)
    return excess, recorded


def steps_of_windows(
    windows: Sequence[Window],
    folded: Folded,
    steps: Mapping[int, Mapping[str, float]],
    kinds: Mapping[int, object],
) -> list[list[Mapping[str, float]]]:
    """Return the steps for which each window stands: of the same optimizers, and the nearest."""

    def optimizers(number: int) -> set[object]:
        """Return the kinds of the optimizers of a step, as `steps` counts them."""
        updates = folded.order[folded.made[number] : folded.made[number + 1]]
        return {kinds.get(optimizer, optimizer) for optimizer in updates}

    begins = [folded.steps_after(window.first) - 1 for window in windows]
    recorded = [
        set[object]().union(
            *map(optimizers, range(max(0, begin), folded.steps_after(window.last) - 1))
        )
        for begin, window in zip(begins, windows, strict=True)
    ]
    result: list[list[Mapping[str, float]]] = [[] for _ in windows]
    for number, step in steps.items():
        ours = optimizers(number)
        same = [place for place, theirs in enumerate(recorded) if ours <= theirs]
        if same:
            before = [place for place in same if begins[place] <= number]
            result[before[-1] if before else same[0]].append(step)
    return result


def spent(
    of_window: Sequence[Mapping[str, float]],
    wall: Mapping[str, float],
    steps: Mapping[int, Mapping[str, float]],
) -> dict[str, float]:
    """Return the part of the wall time of each part of a step that falls to some of the steps."""
    result = {}
    for phase in PHASES:
        whole = sum(step.get(phase, 0.0) for step in steps.values())
        of_these = sum(step.get(phase, 0.0) for step in of_window)
        result[phase] = wall.get(phase, 0.0) * (of_these / whole if whole else 0.0)
    return result
