"""Prepares the next window early: made by loader processes, copied to the GPU during a step.

Each source has `window(at, micro_batch)`, as AccumulationWindows has, and returns the same batches:
a window prepared for another position is discarded. `prepare` is called once the device has work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from hotloop.engine.loader_processes import WindowWorkers, key_of
from hotloop.machine.copy_stream import CudaCopyStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.machine.copy_stream import CopyStream
    from hotloop.session.accumulation_windows import AccumulationWindows, Position
    from hotloop.session.batch import Batch
    from hotloop.session.session import Session

__all__ = ["Direct", "Prefetch", "WindowSource", "source_of"]


class WindowSource(Protocol):
    """A source of windows for the loop."""

    def window(self, position: Position, micro_batch: int) -> Sequence[Batch]:
        """Return the micro batches of the optimizer step at a position."""
        ...

    def prepare(self, position: Position, micro_batch: int) -> None:
        """Begin to make the window that is likely to be requested next."""
        ...

    def close(self) -> None:
        """End the processes and copies that run beside the loop."""
        ...


def source_of(feed: AccumulationWindows, session: Session) -> WindowSource:
    """Return the source that the session's loading settings require."""
    source: WindowSource = Direct(feed)
    loading = session.loading
    if loading.workers:
        pin = loading.pins and session.device.type == "cuda"
        source = WindowWorkers(feed, count=loading.workers, ahead=loading.windows_ahead, pin=pin)
    return Prefetch(source, CudaCopyStream(session.device)) if loading.prefetch else source


class Direct:
    """Makes each window when it is requested."""

    def __init__(self, feed: AccumulationWindows) -> None:
        self.window = feed.window

    def prepare(self, position: Position, micro_batch: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Prefetch:
    """Copies the next window to the device while the current one is computed."""

    def __init__(self, source: WindowSource, stream: CopyStream) -> None:
        self._source, self._stream = source, stream
        # Position and size of the window in flight, and each batch with the event of its copy.
        self._sent: tuple[tuple[int, int, int], list[tuple[Batch, Any]]] | None = None

    def window(self, position: Position, micro_batch: int) -> Sequence[Batch]:
        """Return the window with its tensors on the device."""
        if self._sent is None or self._sent[0] != key_of(position, micro_batch):
            self.prepare(position, micro_batch)
        assert self._sent is not None
        sent = self._sent[1]
        self._sent = None
        for batch, event in sent:
            self._stream.arrive(batch.tensors.values(), event)
        return [batch for batch, _ in sent]

    def prepare(self, position: Position, micro_batch: int) -> None:
        """Make the window and begin its copy."""
        self._sent = None  # frees its memory first
        window = self._source.window(position, micro_batch)
        self._sent = key_of(position, micro_batch), [self._begun(batch) for batch in window]

    def _begun(self, batch: Batch) -> tuple[Batch, Any]:
        """Begin the copy of a batch; return the batch on the device, and the copy's event."""
        copies, event = self._stream.send(list(batch.tensors.values()))
        tensors = dict(zip(batch.tensors, copies, strict=True))
        return replace(batch, tensors=tensors), event

    def close(self) -> None:
        """Discard the copied window and close the source."""
        self._sent = None
        self._source.close()
