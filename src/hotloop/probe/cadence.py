"""Says which of several optimizers' steps ends a training step."""

from __future__ import annotations

from collections import Counter, deque

__all__ = ["Cadence"]

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
