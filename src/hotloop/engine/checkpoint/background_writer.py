"""Writes checkpoints in the background: copies a snapshot, then writes the copy in a thread.

The memory for copies is allocated once. A CPU waits for one pass of memcpy. A GPU copies on a side
stream while it goes on with the next forward and backward passes; only its next update waits for
the copies, and so does the thread. One write is in flight at a time; the next copy waits for it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

from hotloop.machine.host_memory import HostArena

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from hotloop.engine.checkpoint.state import Snapshot

__all__ = ["Background"]

T = TypeVar("T")
_Key = tuple[str, str]  # file, tensor


class Background(Generic[T]):
    """A thread that turns snapshots into results, one at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hotloop-save")
        self._copies: dict[_Key, Tensor] = {}  # host memory
        self._sides: dict[torch.device, _Side] = {}
        self._is_ordered = True  # whether the current streams wait for the newest copies
        self._running: Future[T] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether there is a write whose result has not been taken."""
        return self._running is not None

    def copied(self, snapshot: Snapshot) -> Snapshot:
        """Return a copy that overwrites the last one; no write may be in flight or untaken.

        Call `order_update` before a parameter or the optimizer's state changes. The copy of a GPU's
        tensor may be read after `wait`.
        """
        assert self._running is None, "its memory is being read"
        sources = {
            (file, name): tensor.detach()
            for file, tensors in snapshot.files.items()
            for name, tensor in tensors.items()
        }
        missing = {key: each for key, each in sources.items() if not self._has_room(key, each)}
        self._copies |= _memory_for(missing)
        files: dict[str, dict[str, Tensor]] = {file: {} for file in snapshot.files}
        beside: dict[torch.device, list[tuple[Tensor, Tensor]]] = {}
        for (file, name), source in sources.items():
            files[file][name] = copy = self._copies[file, name]
            pairs = beside.setdefault(source.device, []) if source.is_cuda else []
            if source.is_cuda and name not in snapshot.buffers:
                pairs.append((copy, source))
            else:
                copy.copy_(source, non_blocking=source.is_cuda)
        for device, pairs in beside.items():
            if device not in self._sides:
                self._sides[device] = _Side(device)
            self._sides[device].copy(pairs)
            self._is_ordered = False
        return replace(snapshot, files=files)

    def order_update(self) -> None:
        """Make what the GPUs do next wait for the copies; the host does not wait."""
        for side in () if self._is_ordered else self._sides.values():
            torch.cuda.current_stream(side.device).wait_event(side.copied)
        self._is_ordered = True

    def wait(self) -> None:
        """Wait until the copies are complete."""
        for side in self._sides.values():
            side.copied.synchronize()

    def start(self, snapshot: Snapshot, write: Callable[[Snapshot], T]) -> None:
        """Copy a snapshot, as `copied` does, and pass it to the thread."""
        self.start_copied(self.copied(snapshot), write)

    def start_copied(self, copy: Snapshot, write: Callable[[Snapshot], T]) -> None:
        """Pass the last result of `copied` to the thread, which waits for it."""
        assert self._running is None, "one write at a time"
        self._running = self._pool.submit(self._written, copy, write)

    def take(self, *, wait: bool) -> T | None:
        """Return the result of the write in flight, or raise its error; None if none is done."""
        if self._running is None or not (wait or self._running.done()):
            return None
        running, self._running = self._running, None
        return running.result()

    def close(self) -> None:
        """End the thread after the write in flight."""
        self._pool.shutdown()

    def _written(self, copy: Snapshot, write: Callable[[Snapshot], T]) -> T:
        self.wait()
        return write(copy)

    def _has_room(self, key: _Key, tensor: Tensor) -> bool:
        copy = self._copies.get(key)
        return copy is not None and copy.shape == tensor.shape and copy.dtype == tensor.dtype


class _Side:
    """A stream beside the one that computes, and the event behind its copies."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # A thread that waits for it sleeps instead of taking a core from the loop.
        self.copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]

    def copy(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Begin to copy the second tensor of each pair to the first, once it is computed."""
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            for copy, source in pairs:
                copy.copy_(source, non_blocking=True)
                source.record_stream(self._stream)  # so that nobody reuses its memory before
            self.copied.record(self._stream)


def _memory_for(tensors: Mapping[_Key, Tensor]) -> dict[_Key, Tensor]:
    """Return host memory laid out like each tensor.

    A GPU copies into pinned memory at full speed and without a wait; its tensors share arenas.
    """
    made = {
        key: torch.empty_like(each, device="cpu")
        for key, each in tensors.items()
        if not each.is_cuda
    }
    on_gpu = {key: each for key, each in tensors.items() if each.is_cuda}
    arena = HostArena(each.nbytes for each in on_gpu.values())
    for key, each in on_gpu.items():
        like = torch.empty_like(each, device="meta")
        numbers = arena.take(like.nbytes).view(like.dtype)
        made[key] = numbers.as_strided(like.shape, like.stride(), numbers.storage_offset())
    return made
