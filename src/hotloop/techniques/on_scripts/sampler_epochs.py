"""Models when a PyTorch DataLoader requests its order, draws its seed and reads its indices.

Every new iterator requests an order from its sampler and draws a seed for its workers. One with
workers then requests a second order, and reads as many indices as batches may be under way, before
the loop has its first batch. A persistent one requests one order at each further epoch, and draws
no seed (torch/utils/data/dataloader.py, 2.13). A loader that hotloop changes keeps its old habit.
"""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EpochOrder", "Habit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """How a script's own loader starts its epochs."""

    workers: int
    each: int  # batches that each worker prefetches
    persistent: bool

    @classmethod
    def of(cls, loader: Any) -> Habit:
        """Read the habit from the options of a loader as the script built it."""
        workers = loader.num_workers
        return cls(
            workers=workers,
            each=loader.prefetch_factor or 0,
            persistent=bool(workers and loader.persistent_workers),
        )

    @property
    def ahead(self) -> int:
        """Return the number of batches whose indices are read before the first batch arrives."""
        return self.workers * self.each


class EpochOrder:
    """An iterator over the indices of an order, which are read ahead of the consumers."""

    def __init__(self, order: Iterator[Any], ahead: int) -> None:
        self._order, self._read = order, deque[Any]()
        self.fault: Exception | None = None  # raised when an index is taken
        for _ in range(ahead):
            self.read()

    def become(self, other: EpochOrder) -> None:
        """Continue with another order, for all consumers of this one."""
        self._order, self._read, self.fault = other._order, other._read, other.fault

    def read(self) -> None:
        """Read one more index batch, if there is one."""
        with contextlib.suppress(StopIteration):
            self._read.append(next(self._order))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.fault is not None:
            raise self.fault
        if not self._read:
            raise StopIteration
        return self._read.popleft()


hide(globals())
