"""Copies tensors to a device on a stream of its own, beside the one that computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

__all__ = ["CopyStream", "CudaCopyStream", "pinned"]


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor from which a copy to the device need not wait."""
    is_there = device.type != "cuda" or tensor.device.type != "cpu" or tensor.is_pinned()
    return tensor if is_there else tensor.pin_memory()


class CopyStream(Protocol):
    """A way to a device beside the stream that computes."""

    def send(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """Begin to copy; return where the copies will be, and the event that `arrive` waits for."""
        ...

    def arrive(self, tensors: Iterable[Tensor], event: Any, *, wait: bool = False) -> None:
        """Let the computing stream wait for copies, and the host only with `wait`."""
        ...


class CudaCopyStream:
    """A side stream. PyTorch's host allocator keeps a pinned buffer until its copy is done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """Copy from pinned memory on the side stream, and record an event behind the copies."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            copies = [
                pinned(tensor, self._device).to(self._device, non_blocking=True)
                for tensor in tensors
            ]
            event.record(self._stream)
        return copies, event

    def arrive(self, tensors: Iterable[Tensor], event: Any, *, wait: bool = False) -> None:
        """Order the computing stream behind these copies, not behind later ones."""
        if wait:
            event.synchronize()
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(computing)  # its memory is not reused while it is computed with
