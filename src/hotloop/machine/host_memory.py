"""Pinned host memory, which a GPU reads and writes at full speed and without a wait of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

__all__ = ["HostArena", "host_memory"]

# Pinned at once: torch rounds each allocation up to a power of two, and one takes the driver longer
# than a small copy. What is larger has its own.
_ARENA_BYTES: Final = 1 << 28
_ALIGNED: Final = 64  # bytes; more than the width of any number


def host_memory(size: int) -> Tensor:
    """Return `size` bytes of pinned memory, or of ordinary memory where the system pins no more.

    A run must not fail for that: copies to ordinary memory only make the host wait for each.
    """
    try:
        return torch.empty(size, dtype=torch.uint8, pin_memory=size > 0)
    except RuntimeError:
        return torch.empty(size, dtype=torch.uint8)


def _rounded(size: int) -> int:
    return size + -size % _ALIGNED


class HostArena:
    """Host memory for many tensors, allocated in few large parts."""

    def __init__(self, sizes: Iterable[int]) -> None:
        """Expect to be asked for these numbers of bytes; nothing is allocated yet."""
        self._left = sum(map(_rounded, sizes))
        self._part, self._used = torch.empty(0, dtype=torch.uint8), 0

    def take(self, size: int) -> Tensor:
        """Return `size` bytes, [size] uint8, without values."""
        rounded = _rounded(size)
        if self._used + rounded > len(self._part):
            self._part = host_memory(max(rounded, min(self._left, _ARENA_BYTES)))
            self._used = 0
        taken = self._part[self._used : self._used + size]
        self._used, self._left = self._used + rounded, self._left - rounded
        return taken
