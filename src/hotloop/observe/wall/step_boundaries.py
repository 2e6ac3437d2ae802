"""Says which of several optimizers' steps ends a training step."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import TYPE_CHECKING

from hotloop.observe.hooks.event_buffer import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Cadence", "endings"]

WINDOW = 32  # steps of any optimizer; one that is not seen in it is over


class Cadence:
    """Finds the last optimizer of a cycle: of those stepped lately the rarest, then the newest.

    One optimizer ends a step each time. Of two that alternate the second does; a generator that
    is stepped once for five steps of its discriminator does.
    """

    def __init__(self) -> None:
        self._lately: deque[int] = deque(maxlen=WINDOW)
        self._first_seen: dict[int, int] = {}

    def ends(self, key: int) -> bool:
        """Note a step of the optimizer `key`; return whether the training step ends with it."""
        self._lately.append(key)
        self._first_seen.setdefault(key, len(self._first_seen))
        times = Counter(self._lately)
        rare = min(times.values()) + 1  # the window may cut a cycle
        last = max((k for k in times if times[k] <= rare), key=lambda k: self._first_seen[k])
        return key == last


def endings(updates: Sequence[int]) -> tuple[list[int], int]:
    """Return the indices of the updates that end a step, and the most optimizers of one step.

    `updates` are the numbers of the optimizers, in the order in which they were stepped. Where
    several take turns the rarest ends the step, and of equally rare ones the last; optimizers that
    are used one after another (folds, stages, a warm-up) make steps of their own.
    """
    indices: list[int] = []
    most = 0
    for turns in _turns(updates):
        times = Counter(updates[index] for index in turns)
        rare = min(times.values())
        last = next(updates[index] for index in reversed(turns) if times[updates[index]] == rare)
        indices += [index for index in turns if updates[index] == last]
        most = max(most, len(times))
    return indices, most


def _turns(updates: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of updates in stretches: in one, optimizers are stepped between others."""
    runs: list[tuple[tuple[int, int], list[int]]] = []
    part = 0
    for number, run in itertools.groupby(range(len(updates)), key=updates.__getitem__):
        indices = list(run)
        # One alone for so long is no part of a cycle. The last number is many optimizers.
        alone = len(indices) > WINDOW and number < NUMBERS - 1
        part += alone
        runs.append(((part, number), indices))
        part += alone
    final = {key: index for index, (key, _) in enumerate(runs)}
    stretch: list[int] = []
    until = 0
    for index, (key, indices) in enumerate(runs):
        stretch += indices
        until = max(until, final[key])
        if index == until:
            yield stretch
            stretch = []
