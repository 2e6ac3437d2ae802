"""Decides which of several optimizers' steps ends a training step."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import TYPE_CHECKING

from hotloop.observe.hooks.event_buffer import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Cadence", "endings"]

# Steps of all optimizers. An optimizer is out of use if none of the last WINDOW is its own, or none
# of the last RARE, unless it has paused for half as long before: a trial step, a warm-up are over.
# A generator is stepped once for five steps of its critic (https://arxiv.org/abs/1701.07875): RARE
# is above that, until its own pause is known.
WINDOW, RARE = 32, 8


class Cadence:
    """Finds the last optimizer of a cycle: the rarest of those stepped lately, then the newest.

    A single optimizer ends a step each time. Of two that alternate, the second one does; so does a
    generator that is stepped once for five steps of its discriminator.
    """

    def __init__(self) -> None:
        self._lately: deque[int] = deque(maxlen=WINDOW)
        self._first_seen: dict[int, int] = {}
        self._last_seen: dict[int, int] = {}
        self._pause: dict[int, int] = {}  # the longest one between two steps
        self._steps = 0

    def ends(self, key: int) -> bool:
        """Record a step of optimizer `key`; return whether it ends the training step."""
        self._lately.append(key)
        self._first_seen.setdefault(key, len(self._first_seen))
        self._steps += 1
        pause = self._steps - self._last_seen.get(key, self._steps)
        self._pause[key] = max(pause, self._pause.get(key, 0))
        self._last_seen[key] = self._steps
        times = Counter(key for key in self._lately if self._is_in_use(key))
        rare = min(times.values()) + 1  # the window may cut a cycle
        last = max((k for k in times if times[k] <= rare), key=lambda k: self._first_seen[k])
        return key == last

    def _is_in_use(self, key: int) -> bool:
        allowed = max(RARE, 2 * self._pause[key])
        return self._steps - self._last_seen[key] <= allowed


def endings(updates: Sequence[int]) -> tuple[list[int], int]:
    """Return the indices of the updates that end a step, and the most optimizers of one step.

    `updates` are the numbers of the optimizers, in the order of their steps. If several take turns,
    the rarest ends the step, and of equally rare ones the last. Optimizers that are used one after
    another (folds, stages, a warm-up) make separate steps.
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
    """Yield the indices of updates by stretch; within a stretch the optimizers take turns."""
    runs: list[tuple[tuple[int, int], list[int]]] = []
    part = 0
    for number, run in itertools.groupby(range(len(updates)), key=updates.__getitem__):
        indices = list(run)
        # An optimizer alone for so long is in no cycle. The last number stands for many optimizers.
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
