"""Has the next window ready when the loop asks: made by loader processes, copied to the card early.

Each source has `window(at, micro_batch)`, as Feed has, and gives the same batches: what it prepared
for another position is thrown away. `prepare` is called when the device has its work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import torch

from hotloop.engine.loader_processes import WindowWorkers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from hotloop.session.accumulation_windows import AccumulationWindows, Position
    from hotloop.session.batch import Batch
    from hotloop.session.session import Session

__all__ = ["CopyStream", "Direct", "Prefetch", "WindowSource", "source_of"]


class WindowSource(Protocol):
    """Where the loop gets its windows from."""

    def window(self, at: Position, micro_batch: int) -> Sequence[Batch]:
        """Return the micro batches of the optimizer step at a position."""
        ...

    def prepare(self, at: Position, micro_batch: int) -> None:
        """Begin with the window that is likely to be asked for next."""
        ...

    def close(self) -> None:
        """End what runs beside the loop."""
        ...


def source_of(feed: AccumulationWindows, session: Session) -> WindowSource:
    """Return the source that the session's slots ask for."""
    source: WindowSource = Direct(feed)
    loading = session.loading
    if loading.workers:
        pin = loading.pins and session.device.type == "cuda"
        source = WindowWorkers(feed, count=loading.workers, ahead=loading.windows_ahead, pin=pin)
    return Prefetch(source, CudaCopyStream(session.device)) if loading.prefetch else source


class Direct:
    """Makes each window when it is asked for."""

    def __init__(self, feed: AccumulationWindows) -> None:
        self.window = feed.window

    def prepare(self, at: Position, micro_batch: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class CopyStream(Protocol):
    """A way to the device beside the one that computes."""

    def send(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Begin a copy and return where it will be."""
        ...

    def arrive(self, tensors: Mapping[str, Tensor]) -> None:
        """Let the computing stream wait for what was sent, without the host waiting."""
        ...


class CudaCopyStream:
    """A side stream. torch's host allocator keeps a pinned buffer until its copy is done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Begin a copy from pinned memory on the side stream."""
        with torch.cuda.stream(self._stream):
            return {
                name: (t if t.is_pinned() else t.pin_memory()).to(self._device, non_blocking=True)
                for name, t in tensors.items()
            }

    def arrive(self, tensors: Mapping[str, Tensor]) -> None:
        """Order the computing stream behind the copies; its memory is not reused too early."""
        computing = torch.cuda.current_stream(self._device)
        computing.wait_stream(self._stream)
        for tensor in tensors.values():
            tensor.record_stream(computing)


class Prefetch:
    """Sends the next window to the device while this one is computed."""

    def __init__(self, source: WindowSource, lane: CopyStream) -> None:
        self._source, self._lane = source, lane
        self._sent: tuple[tuple[int, int, int], list[Batch]] | None = None

    def window(self, at: Position, micro_batch: int) -> Sequence[Batch]:
        """Return the window with its tensors on the device."""
        if self._sent is None or self._sent[0] != _key(at, micro_batch):
            self.prepare(at, micro_batch)
        assert self._sent is not None
        batches = self._sent[1]
        self._sent = None
        for batch in batches:
            self._lane.arrive(batch.tensors)
        return batches

    def prepare(self, at: Position, micro_batch: int) -> None:
        """Make the window and begin its copy."""
        self._sent = None  # its memory first
        window = self._source.window(at, micro_batch)
        sent = [replace(batch, tensors=self._lane.send(batch.tensors)) for batch in window]
        self._sent = _key(at, micro_batch), sent

    def close(self) -> None:
        """End the source; what was sent is let go."""
        self._sent = None
        self._source.close()


def _key(at: Position, micro_batch: int) -> tuple[int, int, int]:
    return at.epoch, at.sample, micro_batch
