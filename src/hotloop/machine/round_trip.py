"""Takes pieces of tensors in host memory through a GPU: in, changed, and out, all at the same time.

A piece is copied in while the one before it is computed with and the one before that is copied out;
the host waits for none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

__all__ = ["RoundTrip"]

_COUNT = 3  # one that comes, one that is computed with, and one that goes


class RoundTrip:
    """Takes pieces of host tensors to a GPU and back. A piece is several pinned tensors."""

    def __init__(self, device: torch.device) -> None:
        """Make the streams; the buffers are made as large as the first pieces need them."""
        self._device = device
        self._coming, self._going = (torch.cuda.Stream(device) for _ in range(2))  # type: ignore[no-untyped-call]
        self._buffers: list[list[Tensor]] = []
        self._free: list[Any] = [None] * _COUNT  # the event at which a buffer is copied out

    def through(self, pieces: Sequence[Sequence[Tensor]]) -> Iterator[list[Tensor]]:
        """Yield each piece on the GPU, [n] each; what is written to it there goes back.

        A piece may be written to until the next one is asked for.
        """
        self._grow(pieces)
        self._coming.wait_stream(self._going)  # a piece may still be going from the last time
        computing = torch.cuda.current_stream(self._device)
        coming = [self._send(pieces, number) for number in range(min(2, len(pieces)))]
        for number, piece in enumerate(pieces):
            here, arrived = coming[number]
            computing.wait_event(arrived)
            yield here
            self._back(piece, here, number, computing)
            if number + 2 < len(pieces):
                coming.append(self._send(pieces, number + 2))

    def wait(self) -> None:
        """Wait until everything is in host memory."""
        self._going.synchronize()

    def _grow(self, pieces: Sequence[Sequence[Tensor]]) -> None:
        """Make the buffers as large as the largest piece."""
        if not pieces:
            return
        sizes = [max(tensor.numel() for tensor in each) for each in zip(*pieces, strict=True)]
        have = [buffer.numel() for buffer in self._buffers[0]] if self._buffers else []
        if have and all(size <= is_there for size, is_there in zip(sizes, have, strict=True)):
            return
        self._buffers = [
            [
                torch.empty(size, dtype=tensor.dtype, device=self._device)
                for size, tensor in zip(sizes, pieces[0], strict=True)
            ]
            for _ in range(_COUNT)
        ]
        for buffer in self._buffers:
            for tensor in buffer:
                tensor.record_stream(self._coming)
                tensor.record_stream(self._going)
        self._free = [None] * _COUNT
        self._coming.wait_stream(torch.cuda.current_stream(self._device))

    def _send(self, pieces: Sequence[Sequence[Tensor]], number: int) -> tuple[list[Tensor], Any]:
        """Begin to copy a piece in; return its tensors on the GPU, and the event behind them."""
        turn = number % _COUNT
        if (free := self._free[turn]) is not None:
            self._coming.wait_event(free)
        here = [b[: t.numel()] for b, t in zip(self._buffers[turn], pieces[number], strict=True)]
        with torch.cuda.stream(self._coming):
            for buffer, tensor in zip(here, pieces[number], strict=True):
                buffer.copy_(tensor, non_blocking=True)
        return here, self._coming.record_event()

    def _back(
        self, piece: Sequence[Tensor], here: Sequence[Tensor], number: int, computing: Any
    ) -> None:
        """Begin to copy a piece out."""
        self._going.wait_event(computing.record_event())
        with torch.cuda.stream(self._going):
            for tensor, buffer in zip(piece, here, strict=True):
                tensor.copy_(buffer, non_blocking=True)
        self._free[number % _COUNT] = self._going.record_event()
