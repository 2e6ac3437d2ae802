"""Reuse the memory of a batch as soon as nothing refers to the batch any more."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["Buffers", "pinned"]

KEPT = 4  # this batch, the one before, and two that are prefetched


def pinned(shape: tuple[int, ...]) -> Tensor:
    """Return pinned memory, int64. Raises without a CUDA GPU.

    torch's host allocator keeps the memory that it gave out, and gives it out again only after the
    events of all copies from it (CachingHostAllocator.cpp, torch 2.13): a buffer of our own would
    need the same guard a second time.
    """
    return torch.empty(shape, dtype=torch.int64, pin_memory=True)


class Buffers:
    """Lend int64 arrays, each of them until the last tensor that was made of it is gone.

    So a batch stays valid as long as anything refers to a tensor of it, or to a view of one; a loop
    that drops its batches runs in two or three buffers. Not thread-safe.
    """

    def __init__(self, make: Callable[[tuple[int, ...]], Tensor] | None = None) -> None:
        """Use an allocator that guards its memory by itself (`pinned`), or keep arrays."""
        self._make = make
        self._kept: list[tuple[NDArray[np.int64], Callable[[], object]]] = []

    def take(self, *shape: int) -> tuple[NDArray[np.int64], Tensor]:
        """Return memory of that shape, not cleared, as an array and as a tensor over it."""
        if self._make is not None:
            tensor = self._make(shape)
            return tensor.numpy(), tensor
        slots = math.prod(shape)
        lent = self._base(slots)[:slots].reshape(shape)  # the tensor keeps this view alive
        self._kept[-1] = self._kept[-1][0], weakref.ref(lent)
        return lent, torch.from_numpy(lent)

    def _base(self, slots: int) -> NDArray[np.int64]:
        """Return the memory to lend next, and move it to the end of the kept memory."""
        free = [index for index, (_, holder) in enumerate(self._kept) if holder() is None]
        for index in reversed(free):  # the last one used may still be in the CPU's cache
            if len(self._kept[index][0]) >= slots:
                self._kept.append(self._kept.pop(index))
                return self._kept[-1][0]
        if free:  # too small: a wider one takes its place
            del self._kept[free[0]]
        elif len(self._kept) == KEPT:
            del self._kept[0]  # its batch keeps the memory alive
        base: NDArray[Any] = np.empty(1 << (slots - 1).bit_length(), np.int64)
        self._kept.append((base, _nobody))
        return base


def _nobody() -> None:
    """Stand for a dead weak reference."""
