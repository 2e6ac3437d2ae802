"""Writes checkpoints beside the training: a copy is taken, then a thread of its own makes it last.

The copies live in memory that is taken once, so that a save costs the loop one pass of memcpy. One
write is in flight at a time; the next copy waits for it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from hotloop.engine.checkpoint.state import Snapshot

__all__ = ["Background"]

T = TypeVar("T")


class Background(Generic[T]):
    """A thread that turns snapshots into results, one at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hotloop-save")
        self._copies: dict[tuple[str, str], Tensor] = {}  # (file, tensor) -> host memory
        self._running: Future[T] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a write has not been taken yet."""
        return self._running is not None

    def copied(self, snapshot: Snapshot) -> Snapshot:
        """Return a copy, over the one before; what is in flight must have been taken."""
        assert self._running is None, "its memory is being read"
        files = {name: self._copy(name, tensors) for name, tensors in snapshot.files.items()}
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()  # the copies from the card are complete
        return replace(snapshot, files=files)

    def start(self, snapshot: Snapshot, write: Callable[[Snapshot], T]) -> None:
        """Copy a snapshot and hand it to the thread; what is in flight must have been taken."""
        self.start_copied(self.copied(snapshot), write)

    def start_copied(self, copy: Snapshot, write: Callable[[Snapshot], T]) -> None:
        """Hand what `copied` returned last to the thread."""
        assert self._running is None, "one write at a time"
        self._running = self._pool.submit(write, copy)

    def take(self, *, wait: bool) -> T | None:
        """Return what the write in flight came to, and raise what it raised; None: nothing yet."""
        if self._running is None or not (wait or self._running.done()):
            return None
        running, self._running = self._running, None
        return running.result()

    def close(self) -> None:
        """Let the thread go, after the write in flight."""
        self._pool.shutdown()

    def _copy(self, file: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        copies = {}
        for name, tensor in tensors.items():
            copy = self._copies.get((file, name))
            if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
                # From pinned memory a card copies at full speed and without a wait.
                copy = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
                self._copies[file, name] = copy
            copies[name] = copy.copy_(tensor.detach(), non_blocking=tensor.is_cuda)
        return copies
