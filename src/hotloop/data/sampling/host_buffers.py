"""Memory for batches that is used again once nothing refers to the batch that lay in it."""

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

KEPT = 4  # this batch, the one before, and as many that are on their way


def pinned(shape: tuple[int, ...]) -> Tensor:
    """Return pinned memory, int64. It raises without a CUDA card.

    torch's host allocator keeps what it gave out, and gives it out again only after the events of
    all copies from it (CachingHostAllocator.cpp, torch 2.13): a buffer of our own would need the
    same guard a second time.
    """
    return torch.empty(shape, dtype=torch.int64, pin_memory=True)


class Buffers:
    """Lends int64 arrays, each of them until the last tensor that was made of it is gone.

    So a batch stays valid for as long as anything refers to a tensor of it, or to a view of one;
    a loop that lets go of its batches runs in two or three buffers. Not for two threads at once.
    """

    def __init__(self, make: Callable[[tuple[int, ...]], Tensor] | None = None) -> None:
        """Take the allocator that guards its memory by itself (`pinned`), or keep arrays."""
        self._make = make
        self._kept: list[tuple[NDArray[np.int64], Callable[[], object]]] = []

    def take(self, *shape: int) -> tuple[NDArray[np.int64], Tensor]:
        """Return memory of that shape, not cleared, as an array and as the tensor over it."""
        if self._make is not None:
            tensor = self._make(shape)
            return tensor.numpy(), tensor
        slots = math.prod(shape)
        lent = self._base(slots)[:slots].reshape(shape)  # the tensor keeps this view alive
        self._kept[-1] = self._kept[-1][0], weakref.ref(lent)
        return lent, torch.from_numpy(lent)

    def _base(self, slots: int) -> NDArray[np.int64]:
        """Return the memory that is lent next, and put it at the end of what is kept."""
        free = [at for at, (_, holder) in enumerate(self._kept) if holder() is None]
        for at in reversed(free):  # what was used last may still be in the cache
            if len(self._kept[at][0]) >= slots:
                self._kept.append(self._kept.pop(at))
                return self._kept[-1][0]
        if free:  # too small: a wider one takes its place
            del self._kept[free[0]]
        elif len(self._kept) == KEPT:
            del self._kept[0]  # its batch keeps it
        base: NDArray[Any] = np.empty(1 << (slots - 1).bit_length(), np.int64)
        self._kept.append((base, _nobody))
        return base


def _nobody() -> None:
    """Stand for a reference to what is gone."""
