"""Writes checkpoints in the background: copies a snapshot, then writes the copy in a thread.

The memory for copies is allocated once, so a save costs the loop one pass of memcpy. One write is
in flight at a time; the next copy waits for it.
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
        """Whether there is a write whose result has not been taken."""
        return self._running is not None

    def copied(self, snapshot: Snapshot) -> Snapshot:
        """Return a copy that overwrites the last one; no write may be in flight or untaken."""
        assert self._running is None, "its memory is being read"
        files = {name: self._copy(name, tensors) for name, tensors in snapshot.files.items()}
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()  # the copies from the GPU are complete
        return replace(snapshot, files=files)

    def start(self, snapshot: Snapshot, write: Callable[[Snapshot], T]) -> None:
        """Copy a snapshot and pass it to the thread; no write may be in flight or untaken."""
        self.start_copied(self.copied(snapshot), write)

    def start_copied(self, copy: Snapshot, write: Callable[[Snapshot], T]) -> None:
        """Pass the last result of `copied` to the thread."""
        assert self._running is None, "one write at a time"
        self._running = self._pool.submit(write, copy)

    def take(self, *, wait: bool) -> T | None:
        """Return the result of the write in flight, or raise its error; None if none is done."""
        if self._running is None or not (wait or self._running.done()):
            return None
        running, self._running = self._running, None
        return running.result()

    def close(self) -> None:
        """End the thread after the write in flight."""
        self._pool.shutdown()

    def _copy(self, file: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        copies = {}
        for name, tensor in tensors.items():
            copy = self._copies.get((file, name))
            if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
                # A GPU copies into pinned memory at full speed and without a wait.
                copy = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
                self._copies[file, name] = copy
            copies[name] = copy.copy_(tensor.detach(), non_blocking=tensor.is_cuda)
        return copies
